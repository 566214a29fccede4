# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The command line: ``python -m demo``."""

import argparse
import collections.abc
import os
import pathlib
import shutil
import signal
import sys
import time

from demo import accelerator_steps
from demo import client_files
from demo import cloud as cloud_lib
from demo import command_guide
from demo import command_line
from demo import console_steps
from demo import expected_providers
from demo import host as host_lib
from demo import launcher
from demo import move_steps
from demo import report
from demo import server_steps
from demo import stack as stack_lib
from demo import step_context
from demo import steps as steps_lib
from demo import supervisor as supervisor_lib
from demo import two_host_steps
from demo import two_hosts
from demo import user_files

_FAILED = 1
_USAGE = 2
# What a shell reports of a program that Ctrl-C ended.
_INTERRUPTED = 130

#: The signals that end a run. A shell starts background jobs with SIGINT
#: ignored, so Python's default handling does not suffice.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(argv: collections.abc.Sequence[str] | None = None) -> int:
    """Run the demonstration.

    :param argv: the command line without the program's name; by default that
        of the process.
    :returns: the exit status: 0 if all results are as expected, 1 if one is
        not or a service failed, 2 if an argument or a file can't be used,
        130 after an interruption.
    """
    arguments = _parse(argv)
    try:
        _check_files(arguments)
        state_dir = stack_lib.make_state_dir(arguments.state_dir)
    except (OSError, user_files.UserFileError) as error:
        print(f'demo: {error}', file=sys.stderr)
        return _USAGE
    is_temporary = arguments.state_dir is None
    _say(
        f'everything of this run is in {state_dir}'
        + (
            ', which is deleted at the end unless something fails'
            if is_temporary
            else ''
        )
    )
    for number in _SIGNALS:
        signal.signal(number, signal.default_int_handler)
    # Requests to the services must not go through a proxy. The children
    # inherit these variables.
    os.environ['no_proxy'] = os.environ['NO_PROXY'] = stack_lib.ADDRESS
    status = _run_reporting_errors(state_dir, arguments)
    if status == _FAILED:
        _say(f'all log files are in {state_dir / "log"}')
    elif is_temporary:
        shutil.rmtree(state_dir)
    if status == 0 and not arguments.keep:
        guide = _guide(_next_state_dir(state_dir), arguments.choices)
        print(guide.for_next_run())
    return status


def _parse(
    argv: collections.abc.Sequence[str] | None,
) -> argparse.Namespace:
    """Parse the command line; files of the user imply ``--keep``."""
    parser = command_line.make_parser()
    arguments = parser.parse_args(argv)
    arguments.choices = choices = launcher.Choices(
        inventory=arguments.inventory,
        world=arguments.world,
        accelerators=arguments.accelerators,
        has_cyborg=arguments.cyborg or arguments.accelerators is not None,
        transport_url=arguments.transport_url,
        hosts=arguments.hosts,
        has_console=arguments.console,
        has_cinder=arguments.cinder,
        has_steps=not arguments.no_steps,
    )
    if choices.has_console and choices.has_cyborg:
        parser.error(
            '--console is for a cloud without Cyborg: leave out --cyborg and '
            '--accelerators'
        )
    if choices.has_cinder and choices.has_cyborg:
        parser.error(
            '--cinder is for a cloud without Cyborg: leave out --cyborg and '
            '--accelerators'
        )
    if choices.hosts > 1 and (
        choices.has_cyborg or not choices.has_default_files
    ):
        parser.error(
            '--hosts 2 has its own worlds and inventory files, and no '
            'Cyborg: leave out --world, --inventory, --accelerators and '
            '--cyborg'
        )
    if not choices.runs_steps:
        if arguments.json:
            parser.error(
                '--json writes the results of the steps, which --inventory, '
                '--accelerators, --world and --no-steps leave out'
            )
        arguments.keep = True
    return arguments


def _check_files(arguments: argparse.Namespace) -> None:
    """Verify the files of the user before anything starts.

    :raises user_files.UserFileError: an inventory or world can't be used.
    :raises OSError: the file for the results can't be written.
    """
    for inventory in (arguments.inventory, arguments.accelerators):
        if inventory:
            user_files.read_paragraphs(inventory)
    if arguments.world:
        user_files.check_world(arguments.world)
    if arguments.json:
        # Also removes the results of an earlier run.
        report.write(arguments.json, [])


def _run_reporting_errors(
    state_dir: pathlib.Path, arguments: argparse.Namespace
) -> int:
    """Run the cloud; report an error, and return the exit status."""
    try:
        return _run_cloud(state_dir, arguments)
    except KeyboardInterrupt:
        _say('interrupted')
        return _INTERRUPTED
    except supervisor_lib.ServiceError as error:
        _say(str(error))
        _show_log(error.log)
    except (
        OSError,
        user_files.UserFileError,
        *steps_lib.REFUSALS,
    ) as error:
        _say(report.reason(error))
    return _FAILED


def _run_cloud(state_dir: pathlib.Path, arguments: argparse.Namespace) -> int:
    """Run the cloud, and stop all of its processes at the end."""
    with supervisor_lib.Supervisor(state_dir / 'log') as supervisor:
        try:
            return _run_children(state_dir, supervisor, arguments)
        finally:
            # A second Ctrl-C must not interrupt the end of the children.
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)


def _run_children(
    state_dir: pathlib.Path,
    supervisor: supervisor_lib.Supervisor,
    arguments: argparse.Namespace,
) -> int:
    began = time.monotonic()
    choices = arguments.choices
    stack = launcher.launch(state_dir, supervisor, choices, _say)
    context = _make_context(stack, supervisor)
    done = []
    if choices.runs_steps:
        done = _show_steps(context)
    elif choices.has_steps:
        _show_cloud(context)
    else:
        server_steps.create_image_network_key(context)
    wrong = [step.step for step in done if not step.ok]
    boots_more = arguments.keep and stack.has_console and choices.hosts == 1
    if done and not wrong and boots_more:
        url = console_steps.boot_kept_server(context)
        _say(f'the console of server {console_steps.SERVER}: {url}')
    context.log_off()
    if arguments.json:
        report.write(arguments.json, done)
    if done:
        seconds = time.monotonic() - began
        _say(f'{len(done) - len(wrong)} steps are ok, after {seconds:.0f} s')
    if wrong:
        _say(f'wrong: {wrong[0]}')
        supervisor.check()
        for log in ('nova', *stack.compute_services):
            _show_log(supervisor.log(log))
    if arguments.keep:
        is_temporary = arguments.state_dir is None and not wrong
        _keep(stack, choices, is_temporary)
    return _FAILED if wrong else 0


def _make_context(
    stack: stack_lib.Stack, supervisor: supervisor_lib.Supervisor
) -> step_context.Context:
    if stack.has_compute_processes:
        return two_hosts.make_context(stack, supervisor)
    host = host_lib.Host(stack.host)
    return step_context.Context(stack, cloud_lib.Cloud(stack), host)


def _show_steps(context: step_context.Context) -> list[report.Step]:
    """Run and print the steps."""
    done = []
    for number, step in enumerate(steps_lib.run_steps(context), start=1):
        report.show(step, number)
        done.append(step)
    print()
    return done


def _show_cloud(context: step_context.Context) -> None:
    """Print what a cloud with files of the user publishes."""
    for title, lines in steps_lib.show_cloud(context):
        report.show_lines(title, lines)
    print()
    _say('the scripted steps are left out: they need the default files')


def _keep(
    stack: stack_lib.Stack, choices: launcher.Choices, is_temporary: bool
) -> None:
    """Print how to use the cloud, and let it run until Ctrl-C."""
    client_files.write(stack)
    print(_guide(stack.state_dir, choices).for_running_cloud())
    for compute in stack.computes:
        print(f'The REST API of the PowerVM host is at {compute.host.url};')
        print('programs on this machine need no user and password.')
    print(f'Log files are in {stack.log}.\n')
    _say('running until Ctrl-C, which ' + _what_ends(stack, is_temporary))
    try:
        signal.pause()
    except KeyboardInterrupt:
        _say('stopping')


def _what_ends(stack: stack_lib.Stack, is_temporary: bool) -> str:
    if is_temporary:
        return (
            'stops the cloud and deletes everything in it: servers, disks, '
            f'images, databases and all of {stack.state_dir}'
        )
    return (
        'stops the cloud for good: the emulated host with its LPARs and '
        'disks is lost; databases, configuration and logs stay in '
        f'{stack.state_dir}'
    )


def _guide(
    state_dir: pathlib.Path, choices: launcher.Choices
) -> command_guide.Guide:
    """Return the guide to a cloud with the default files, or with others."""
    novas = _read_paragraphs(
        choices.inventory, launcher.default_inventory(choices.has_cyborg)
    )
    cyborgs = _read_paragraphs(
        choices.accelerators, launcher.default_accelerators()
    )
    return command_guide.Guide(
        state_dir,
        pathlib.Path(sys.prefix),
        choices,
        flavor=_existing_flavor(choices),
        large_flavor=move_steps.FLAVOR,
        paragraphs=[paragraph.name for paragraph in novas],
        accelerator_classes=[item.resource_class for item in cyborgs],
    )


def _existing_flavor(choices: launcher.Choices) -> str | None:
    """Return a flavor that the steps have left, or None without steps."""
    if not choices.runs_steps:
        return None
    if choices.has_cyborg:
        return accelerator_steps.FLAVOR
    if choices.hosts > 1:
        return two_host_steps.FLAVOR
    return server_steps.FLAVOR_ONE


def _read_paragraphs(
    given: pathlib.Path | None, default: str
) -> collections.abc.Sequence[
    user_files.Paragraph | expected_providers.Paragraph
]:
    """Return the paragraphs of the inventory file in use."""
    if given is not None:
        return user_files.read_paragraphs(given)
    return expected_providers.read_paragraphs(default)


def _next_state_dir(state_dir: pathlib.Path) -> pathlib.Path:
    """Return a state directory for another run, which does not exist."""
    number, path = 1, state_dir
    while path.exists():
        number += 1
        path = state_dir.with_name(f'{state_dir.name}-{number}')
    return path


def _show_log(log: pathlib.Path) -> None:
    lines = supervisor_lib.last_errors(log)
    if lines:
        print(f'From {log}:')
        print(*(f'  {line}' for line in lines), sep='\n')


def _say(line: str) -> None:
    print(f'[{time.strftime("%H:%M:%S")}] {line}', flush=True)
