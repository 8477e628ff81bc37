"""What the doctor makes of the facts about an ensemble. Pure.

facts.py           what is known: servers, nodes, folders, files
findings.py        a finding, its severity, and the rule that it comes from
quorum_rules.py    the ensemble as a whole: leader, quorum, links, digests, settings, keeper
member_rules.py    the member list, and changes of it
server_rules.py    limits of each server, and what its processor and memory leave it
disk_rules.py      disks and folders
node_rules.py      Ray nodes: clocks, versions, certificates, Ray's own settings
unchecked.py       what was not looked at
table.py           all rules, in the order in which their findings are shown
"""
