"""Systems that ZooKeeper is known for, small, on Ray.

README.md lists them. scene.py and web.py are what they share; ymb_broker.py belongs to
message_broker.py.
"""
