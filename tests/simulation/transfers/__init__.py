"""Transfers of the lead under all faults: plans, the transfers in calm, and their seeds."""
