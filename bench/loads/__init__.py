"""Client processes that generate load; task.py defines their arguments and reports."""
