"""The same for ``-k eventlet``."""

import eventlet

eventlet.monkey_patch(os=False)  # Else gunicorn's master cannot be ended by a signal.
