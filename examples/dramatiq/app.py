"""Send messages to the workers."""

from actors import clean, count

for _ in range(3):
    clean.send()
    count.send("tea")
