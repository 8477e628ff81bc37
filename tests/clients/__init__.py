"""Clients that others wrote for ZooKeeper, each in a program of its own language.

    kazoo_client.py      kazoo of PyPI
    c_client.c           the C client, Debian's libzookeeper-mt-dev
    CuratorClient.java   Curator on the Java client, Debian's libcurator-recipes-java
    node_client.js       node-zookeeper-client of npm, which `make test` installs below build/
    native_client.js     zookeeper of npm, which is built there
    aiozk_client.py      aiozk of PyPI

Each has two words: `tour HOSTS` tries what the client offers, and `survive HOSTS` sets a znode for
each line of its input whatever happens to the servers. programs.py builds and starts them; one
whose package is not there is skipped by its tests, with a line that says so.
"""
