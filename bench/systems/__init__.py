"""What is measured; contract.py says what a system can do."""
