"""Programs with Ray Serve, Train and Data, each with the recipe that fits; see docs/USING.md."""
