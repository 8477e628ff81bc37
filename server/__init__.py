"""The pure server: one replica of the ensemble as a state machine, without clock, disk or Ray."""
