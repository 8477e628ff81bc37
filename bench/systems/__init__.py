"""The measured systems; contract.py defines their interface."""
