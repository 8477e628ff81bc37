"""Client processes that generate load; task.py says what they are told."""
