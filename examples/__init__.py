"""Programs to begin with, written as users write them; systems/ holds larger ones.

README.md lists them. Each is a script by itself: it imports nothing from this package.
"""
