"""Settings of gunicorn that let ``-k gevent`` work with ``--preload``: patched before the application is imported."""

from gevent import monkey

monkey.patch_all()
