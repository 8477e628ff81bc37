"""`raykeeper ui`: a page in the browser, and the admin interface as JSON over HTTP.

command.py          the command: an ensemble in Ray, until it is interrupted
errors.py, settings.py  the error of the command, and its options
source.py           where the page gets its data from: an interface, and an ensemble in Ray
load_feed.py        looks at the load again and again, for the plots
observed_changes.py what happened between two looks
access.py           the token, cookies, Host and Origin
viewers.py          the sessions with which viewers read and change znodes
query.py            the arguments in a query
answers.py          errors as JSON, with the status of each
tables.py           routes: status, load, sessions, locks, watches, sizes, children, events
backups.py          route: the backups in the places that the command was given
znodes.py           routes: a znode and its value, changes, the viewer's identities
web_server.py       the application and its port
page/               HTML, CSS and JavaScript, as the browser gets them
"""
