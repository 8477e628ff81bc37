"""Systems that ZooKeeper is known for, small, on Ray.

README.md lists them. scene.py is what they share; ymb_broker.py belongs to message_broker.py.
"""
