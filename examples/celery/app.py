"""Send tasks to the workers."""

from tasks import clean, count, index

for _ in range(3):
    count.delay("tea")
    clean.delay()
for version in range(1, 5):
    index.delay("tea", version)
