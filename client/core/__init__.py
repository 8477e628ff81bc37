"""The pure client: one session as a state machine, without clock, socket, thread or Ray."""
