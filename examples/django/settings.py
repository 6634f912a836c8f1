"""The least that Django needs."""

SECRET_KEY = "to try it out"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.views"
INSTALLED_APPS = ["pyredisson.integrations.django.PyredissonApp", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3", "ATOMIC_REQUESTS": True}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PYREDISSON = {"URL": "redis://localhost:6379", "timeout": 5.0}
