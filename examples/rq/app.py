"""Send jobs to the workers."""

import jobs
from redis import Redis
from rq import Queue

queue = Queue(connection=Redis.from_url("redis://localhost:6379"))
sent = [queue.enqueue(each) for each in (jobs.clean, jobs.clean)]
sent += [queue.enqueue(jobs.count, "tea") for _ in range(3)]
print(len(sent), "jobs")
