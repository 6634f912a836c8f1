"""The child of a fork is noticed, whether or not Python was told of the fork."""

from tests.command_line import output_of

HEAD = """
        import os, threading
        from pyredisson._shared import process
        from tests.children import fork_without_hooks, in_child
"""


def test_other_threads_wait_until_the_callbacks_have_run():
    """Else they would go on as the parent."""
    said = output_of(
        HEAD
        + """
        inside, go_on = threading.Event(), threading.Event()

        @process.on_fork
        def callback():
            inside.set()
            go_on.wait(10)
            os.write(1, b"callback\\n")

        def check():
            process.check_forked()
            os.write(1, b"checked\\n")  # At once; print() writes the line's end by itself.

        def child():
            threads = [threading.Thread(target=check) for _ in range(3)]
            threads[0].start()
            inside.wait(10)
            for thread in threads[1:]:
                thread.start()
            go_on.set()
            for thread in threads:
                thread.join()

        in_child(child, fork=fork_without_hooks)
        """
    )
    assert said.split() == ["callback", "checked", "checked", "checked"]


def test_a_callback_may_check_and_may_fail():
    said = output_of(
        HEAD
        + """
        import logging
        logging.getLogger("pyredisson").addHandler(logging.NullHandler())
        process.on_fork(lambda: 1 / 0)
        process.on_fork(lambda: process.check_forked() or print("called"))
        in_child(lambda: (process.check_forked(), process.check_forked()), fork=fork_without_hooks)
        in_child(lambda: process.check_forked())
        """
    )
    assert said.split() == ["called", "called"]


def test_a_callback_that_was_interrupted_runs_again():
    said = output_of(
        HEAD
        + """
        calls = []

        @process.on_fork
        def callback():
            calls.append(None)
            if len(calls) == 1:
                raise KeyboardInterrupt

        def child():
            try:
                process.check_forked()
            except KeyboardInterrupt:
                print("interrupted")
            process.check_forked()
            print(len(calls))

        in_child(child, fork=fork_without_hooks)
        """
    )
    assert said.split() == ["interrupted", "2"]


def test_after_a_fork_by_python_nothing_has_to_check():
    said = output_of(
        HEAD
        + """
        process.on_fork(lambda: print("first"))
        in_child(lambda: print("child"))
        """
    )
    assert said.split() == ["first", "child"]
