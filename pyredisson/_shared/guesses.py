"""What users guess who know other libraries, and what to write instead: tables, which :mod:`arguments` looks up."""

from __future__ import annotations

from typing import Final

#: What an argument is called here and elsewhere.
WAITS = ("wait_time", "timeout", "blocking_timeout", "wait", "max_wait", "seconds")
LEASES = (
    *("lease_time", "lease", "ttl", "expire", "ex", "px", "at_most", "seconds", "time", "additional_time"),
    *("auto_release_time", "lock_timeout", "expire_time", "expires", "at_most_for", "lock_at_most_for"),
)
NUMBERS = (
    *("permits", "n", "value", "parties", "count", "limit", "initial", "initial_value", "max", "size", "number", "num"),
    *("amount", "capacity", "max_leases"),
)
SYNONYMS: Final = (
    *(WAITS, LEASES, NUMBERS),
    ("at_least", "at_least_for", "lock_at_least_for"),
    ("name", "key", "name_or_lock", "lock", "lock_name", "resource", "path"),
    ("permit_id", "permit_ids", "id", "ids", "permit", "token"),
    ("callback", "action", "predicate", "function", "func", "fn", "target", "on_elected", "on_change", "listener"),
    ("tries", "retries", "attempts", "max_attempts", "retry_count", "retry_times"),
    ("backoff", "sleep", "delay", "interval", "retry_delay"),
)

_LEASE_OF_A_TERM = "a term is renewed; its lease is Config(lock_watchdog_timeout=...)"
_TIMES_OF_A_LOCK: Final = {
    **dict.fromkeys(LEASES, "pass it where the lock is acquired: hold(lease_time=...)"),
    **dict.fromkeys(WAITS, "pass it where the lock is acquired: hold(wait_time=...)"),
}
_UNITS: Final = dict.fromkeys(("unit", "time_unit"), "times are in seconds, or a timedelta")
_TIMES_OF_A_WAIT: Final = dict.fromkeys(WAITS, "pass it where it waits: wait(timeout=...)")
_OF_MEMBERS: Final = {
    **_TIMES_OF_A_LOCK,
    "quorum": "use MultiLock(*locks, quorum=...)",
    **dict.fromkeys(("locks", "masters", "keys"), "pass the locks by position, as in (*locks)"),
}

_OF_A_LOCK: Final = {
    **_TIMES_OF_A_LOCK,
    "blocking": "try_lock() and acquire(blocking=False) do not wait",
    **dict.fromkeys(("thread_local", "id", "token", "local"), "for another owner pass owner=client.new_owner()"),
    **dict.fromkeys(("auto_renewal", "renew"), "what is acquired without a lease_time is renewed"),
    **dict.fromkeys(
        ("sleep", "retry_delay", "retry_interval", "retry_count", "retry_times"),
        "waiters are woken; get_spin_lock(name, backoff) makes attempts alone",
    ),
}

#: What other libraries let their users pass to a method, by its name, where it has no argument for that.
KEYWORDS: Final = {
    "get_lock": _OF_A_LOCK,
    "get_fair_lock": _OF_A_LOCK,
    "get_fenced_lock": _OF_A_LOCK,
    "get_spin_lock": _OF_A_LOCK,
    "get_token_lock": _OF_A_LOCK,
    "get_non_reentrant_lock": _OF_A_LOCK,
    "get_non_reentrant_fair_lock": _OF_A_LOCK,
    "get_read_write_lock": _OF_A_LOCK,
    "get_multi_lock": _OF_MEMBERS,
    "get_red_lock": _OF_MEMBERS,
    "get_semaphore": _TIMES_OF_A_LOCK,
    "get_permit_expirable_semaphore": _TIMES_OF_A_LOCK,
    "get_bounded_semaphore": dict.fromkeys(WAITS, "pass it where a permit is acquired: acquire(timeout=...)"),
    "get_event": _TIMES_OF_A_WAIT,
    "get_condition": _TIMES_OF_A_WAIT,
    "get_count_down_latch": {**_TIMES_OF_A_WAIT, **dict.fromkeys(NUMBERS, "use try_set_count(n)")},
    "get_leader_election": {
        **dict.fromkeys(LEASES, _LEASE_OF_A_TERM),
        **dict.fromkeys(WAITS, "use term(wait_time=...)"),
    },
    "term": {**dict.fromkeys(LEASES, _LEASE_OF_A_TERM), "blocking": "with wait_time=0 it does not wait"},
    "extend": {"replace_ttl": "the lease lasts for at least lease_time from now on, and is never shortened"},
    "hold": {
        "permits": "it holds one permit; acquire(permits=n) returns several",
        "blocking": "with wait_time=0 it does not wait",
        **_UNITS,
    },
    "lock": _UNITS,
    "try_lock": _UNITS,
    "synchronized": {"blocking": "with when_busy='skip' or 'raise' it does not wait"},
    "acquire": {
        "blocking": "try_acquire() does not wait",
        "sleep": "waiters are woken, and make no attempts meanwhile",
        "token": "for another owner make the lock with owner=client.new_owner()",
    },
}

_LEADS = "use `with election.term() as term:` and term.ensure_held(), or election.leader()"
_OWNED = "use is_held_by_current_thread(), or ensure_held()"
_ANOTHER_CLASS = "pyredisson has the locks and synchronizers of Redisson, and no other objects"

#: What other libraries call what is asked of an object of ours: by its class, what was tried and what to write instead.
ATTRIBUTES: Final = {
    "Redisson": {
        **dict.fromkeys(("lock", "Lock", "mutex", "get_mutex", "acquire_lock"), "use get_lock(name)"),
        **dict.fromkeys(("rlock", "get_rlock", "RLock"), "use get_lock(name), which is reentrant"),
        **dict.fromkeys(("semaphore", "Semaphore"), "use get_semaphore(name, permits=n)"),
        **dict.fromkeys(("redlock", "Redlock", "get_redlock"), "use get_red_lock(*locks)"),
        **dict.fromkeys(
            ("rwlock", "rw_lock", "get_rwlock", "get_rw_lock", "read_lock", "write_lock"),
            "use get_read_write_lock(name)",
        ),
        "get_cyclic_barrier": "use get_barrier(name, parties)",
        **dict.fromkeys(("latch", "get_latch"), "use get_count_down_latch(name)"),
        **dict.fromkeys(("election", "get_election", "leader"), "use get_leader_election(name)"),
        **dict.fromkeys(("acquire", "hold", "try_lock"), "use get_lock(name).hold()"),
        **dict.fromkeys(("unlock", "release", "extend", "locked", "is_locked"), "ask the lock: get_lock(name)"),
        **dict.fromkeys(("from_client", "from_redis", "from_connection"), "use Redisson(client)"),
        "from_pool": "use Redisson(redis.Redis(connection_pool=pool))",
        "from_config": "use from_url(url, config=config)",
        **dict.fromkeys(("create", "create_client", "from_host"), "use from_url(url)"),
        "connect": "it connects at its first use",
        **dict.fromkeys(("disconnect", "shutdown", "stop", "quit", "aclose"), "use close()"),
        **dict.fromkeys(
            ("is_shutdown", "is_shutting_down", "closed", "is_closed"), "a closed client raises ClientClosedError"
        ),
        **dict.fromkeys(
            (
                *("get_bucket", "get_map", "get_set", "get_list", "get_queue", "get_topic", "get_keys"),
                *("get_atomic_long", "get_rate_limiter", "get_bloom_filter", "get_script", "create_batch"),
            ),
            _ANOTHER_CLASS,
        ),
    },
    "ReadWriteLock": {
        **dict.fromkeys(
            ("lock", "try_lock", "unlock", "acquire", "release", "hold", "extend", "locked", "is_locked"),
            "it has two sides: use read_lock() or write_lock(), each of which is a lock",
        ),
        **dict.fromkeys(("reader_lock", "gen_rlock", "rlock", "r_lock", "reader", "acquire_read"), "use read_lock()"),
        **dict.fromkeys(("writer_lock", "gen_wlock", "wlock", "w_lock", "writer", "acquire_write"), "use write_lock()"),
    },
    "LeaderElection": {
        "leader_id": "use leader()",
        "lead": "use run(callback)",
        **dict.fromkeys(("is_leader", "has_leadership"), _LEADS),
        **dict.fromkeys(("elect", "elected", "acquire", "hold"), "use term(), or run(callback)"),
        **dict.fromkeys(("campaign", "volunteer", "join", "run_for", "start_campaign"), "use start(callback)"),
        **dict.fromkeys(("resign", "release"), "leave the block of term()"),
        **dict.fromkeys(("stop", "cancel"), "use stop() of the campaign that start(callback) returns"),
    },
    "Term": {
        **dict.fromkeys(("is_leader", "held", "is_held"), "use lost, remaining() or ensure_held()"),
        **dict.fromkeys(("resign", "release", "stop"), "return from the callback"),
    },
    "Campaign": {
        "is_leader": "use leading",
        **dict.fromkeys(("close", "cancel", "end"), "use stop()"),
        **dict.fromkeys(("is_alive", "done", "running"), "use join(timeout=0)"),
    },
    "Lease": {
        **dict.fromkeys(("held", "is_held", "is_locked", "locked", "valid"), "use lost, remaining() or ensure_held()"),
        **dict.fromkeys(("ttl", "remaining_time", "validity", "remain_time_to_live", "expires_in"), "use remaining()"),
        **dict.fromkeys(("renew", "refresh", "reacquire"), "use extend(lease_time)"),
        **dict.fromkeys(("release", "unlock"), "leave the block of hold()"),
    },
    "Semaphore": {
        **dict.fromkeys(("value", "get_value", "get_count", "count"), "use available_permits()"),
        **dict.fromkeys(("locked", "is_locked"), "use available_permits() == 0"),
        "set_permits": "use resize(permits)",
        "get_permits": "use available_permits()",
        "reduce_permits": "use add_permits(-n)",
        "acquire_uninterruptibly": "use acquire()",
    },
    "PermitExpirableSemaphore": {
        **dict.fromkeys(("extend", "renew", "refresh"), "use update_lease_time(permit_id, lease_time)"),
        "drain_permits": "use acquire(permits=n)",
    },
    "BoundedSemaphore": {
        "try_acquire": "use acquire(blocking=False)",
        "hold": "use `with semaphore:`",
        **dict.fromkeys(("available_permits", "value", "get_value"), "use get_semaphore(name, permits=n)"),
    },
    "CountDownLatch": {
        **dict.fromkeys(("await_", "acquire", "join"), "use wait(timeout)"),
        **dict.fromkeys(("set_count", "reset"), "use try_set_count(n)"),
        **dict.fromkeys(("decrement", "dec", "countdown", "arrive"), "use count_down()"),
        **dict.fromkeys(("locked", "is_set", "is_open", "done"), "use get_count(), which is 0 when it is open"),
    },
    "Event": {
        **dict.fromkeys(("is_open", "is_signaled", "is_signalled"), "use is_set()"),
        **dict.fromkeys(("trigger", "signal", "notify", "notify_all", "open"), "use set()"),
        **dict.fromkeys(("unset", "reset"), "use clear()"),
        **dict.fromkeys(("wait_for", "await_"), "use wait(timeout)"),
    },
    "Condition": {
        **dict.fromkeys(("lock", "try_lock", "hold"), "use `with condition:`"),
        "unlock": "use release()",
        **dict.fromkeys(("signal", "notify_one"), "use notify()"),
        **dict.fromkeys(("signal_all", "broadcast"), "use notify_all()"),
        **dict.fromkeys(("await_", "await_nanos"), "use wait(timeout)"),
    },
    "Barrier": {
        **dict.fromkeys(("await_", "enter", "acquire"), "use wait(timeout)"),
        **dict.fromkeys(("get_number_waiting", "num_waiting", "count"), "use n_waiting"),
    },
    "FencedLock": {"token": "use get_token(), or the token of the lease of hold()"},
    "TokenLock": {"get_token": "use token"},
    "MultiLock": {
        **dict.fromkeys(("valid", "ttl", "remain_time_to_live", "remaining"), "use validity()"),
        "members": "use locks",
    },
    "Lock": {
        **dict.fromkeys(("owned", "acquired", "is_acquired", "is_owned", "is_held", "held", "valid"), _OWNED),
        **dict.fromkeys(
            ("reacquire", "do_reacquire", "extend_lease", "do_extend", "refresh"), "use extend(lease_time)"
        ),
        "renew": "use extend(lease_time); without a lease_time the watchdog renews it",
        **dict.fromkeys(("ttl", "get_ttl", "pttl", "remaining", "validity"), "use remain_time_to_live()"),
        **dict.fromkeys(("reset", "break_lock", "force_release", "delete", "destroy"), "use force_unlock()"),
        **dict.fromkeys(
            ("wait", "notify", "notify_all", "new_condition"), "use get_condition(lock), whose wait() gives the lock up"
        ),
        **dict.fromkeys(("exists", "is_exists"), "use is_locked()"),
        "key": "use name",
        **dict.fromkeys(
            ("token", "get_token", "lock_and_get_token", "try_lock_and_get_token", "fencing_token"),
            "use get_fenced_lock(name)",
        ),
        "lock_interruptibly": "use lock(), which a signal or a cancellation interrupts",
        **dict.fromkeys(("do_acquire", "acquire_lock"), "use acquire()"),
        **dict.fromkeys(("try_acquire", "trylock", "timed_acquire"), "use try_lock(wait_time)"),
        **dict.fromkeys(("do_release", "release_lock"), "use release()"),
        **dict.fromkeys(("get_owner_id", "get_owner", "owner", "holder"), "use holder_of(name) of the client"),
    },
}
