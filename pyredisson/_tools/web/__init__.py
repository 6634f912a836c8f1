"""``pyredisson web``: pages that show the locks of a server live. Needs the extra ``web``.

* ``seen.py`` turns snapshots of the inspection library into what pages show; ``history.py`` remembers, within bounds.
* ``watcher.py`` looks at the server, once for all viewers, while there are any.
* ``pages.py`` renders a page in parts, so that an event contains those that changed.
* ``access.py`` decides which requests are answered; ``app.py`` answers them; ``server.py`` runs all of it.

What comes from Redis reaches a page through the templates alone, which escape it (``templates.py``).
"""
