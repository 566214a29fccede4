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

"""The command line of ``nova-powervm-check``, and what it prints."""

import argparse
import collections
import contextlib
import functools
import json
import logging
import pathlib
import signal
import sys
import textwrap
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from nova_powervm import exception
from nova_powervm import printable
from nova_powervm.lpar import live_migration
from nova_powervm.powervm.check import hmc_inspection
from nova_powervm.powervm.check import migration_trial
from nova_powervm.powervm.check import slot_trial
from nova_powervm.powervm.check import trial
from nova_powervm.tool import errors
from nova_powervm.tool import exit_codes
from nova_powervm.tool.check import answers
from nova_powervm.tool.check import host
from nova_powervm.tool.check import partition_checks
from nova_powervm.tool.check import report
from nova_powervm.tool.check import slot_access
from nova_powervm.tool.check import slot_checks
from nova_powervm.tool.check import target_checks
from nova_powervm.tool.inventory import config as configs
from nova_powervm.tool.inventory import host_reader

NAME = 'nova-powervm-check'
_HOST = 'host'
_PARTITION = 'partition'
_SLOT = 'partition --slot'
_TARGET = 'partition --target'
#: The mode ``host``, if an HMC answers.
HMC = 'hmc'
#: The checks of each mode.
MODES: Mapping[str, Sequence[answers.Check[Any]]] = {
    _HOST: host.CHECKS,
    _PARTITION: partition_checks.CHECKS,
    _SLOT: slot_checks.CHECKS,
    _TARGET: target_checks.CHECKS,
    HMC: host.CHECKS_OF_HMC,
}
_INDENT = ' ' * 4
_TITLE_WIDTH = max(
    len(check.title) for checks in MODES.values() for check in checks
)
_ABOUT_HMC = (
    'This is an HMC, which the driver refuses: nova-compute does not start '
    'with it.\nThe answers are for a later version; please send the report '
    '(--report FILE).'
)
_OUTCOME_WIDTH = max(
    map(len, (*answers.Outcome, *answers.Meaning)),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``nova-powervm-check``.

    :param argv: The arguments; those of the process by default.
    :returns: The exit code.
    """
    # What the driver would log is in the answers, or known.
    logging.getLogger().addHandler(logging.NullHandler())
    parser = make_parser()
    options = parser.parse_args(argv)
    mode = _mode_of(parser, options)
    if options.print_schema:
        schema = report.schema(mode, MODES[mode])
        print(json.dumps(schema, indent=2))
        return exit_codes.SUCCESS
    with _interrupted_by_signals():
        return _run(options, mode)


@contextlib.contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Treat a stop by an init system, or a lost terminal, as Ctrl-C."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [
        signal.signal(number, signal.default_int_handler) for number in numbers
    ]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _run(options: argparse.Namespace, mode: str) -> int:
    """Make the checks of a mode; return the exit code."""
    try:
        if options.report:
            # Before anything is made. What is there stays until the end.
            pathlib.Path(options.report).open('a', encoding='utf-8').close()
        config = configs.read_config(options.config_files, options.config_dirs)
        durations: Mapping[str, float] = {}
        if options.mode == _HOST:
            mode, results, durations = check_host(config, options.system)
        elif mode == _TARGET:
            results = check_target(config, options)
        else:
            access = slot_access.Access(config, options)
            results = check_partition(
                config,
                is_agreed=options.yes,
                access=access if mode == _SLOT else None,
            )
        if options.report:
            document = report.document(mode, results, durations)
            write_report(options.report, document)
    except errors.EXPECTED as error:
        print(f'{NAME}: {errors.describe(error)}', file=sys.stderr)
        return exit_codes.TROUBLE
    except KeyboardInterrupt:
        what = ', and no report was written' if options.report else ''
        print(f'\n{NAME}: interrupted{what}', file=sys.stderr)
        return exit_codes.INTERRUPTED
    return exit_code(results)


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog=NAME,
        description='Tell whether a PowerVM host is as the driver assumes. '
        'Neither the inventory file nor Nova or Placement is needed.',
        epilog='Exit codes: '
        + '; '.join(
            f'{code}: {text.rstrip(".").replace("``", "")}'
            for code, text in exit_codes.TABLE[NAME][''].items()
        ),
    )
    parser.add_argument(
        'mode',
        nargs='?',
        default=_HOST,
        choices=[_HOST, _PARTITION],
        help='what to do: host, the default, reads the host that [powervm] '
        'in nova.conf names, and changes nothing; partition makes an LPAR '
        'there, and removes it',
    )
    parser.add_argument(
        '--yes',
        action='store_true',
        help='do not ask before the LPAR of partition is made',
    )
    slot_access.add_options(parser)
    _add_target_options(parser)
    parser.add_argument(
        '--version', action='version', version=configs.describe_version(NAME)
    )
    parser.add_argument(
        '--system',
        metavar='NAME',
        help='with host, and an HMC that manages several systems: the one to '
        'read, by its name, or by machine type, model and serial number '
        '(9009-22A*1234567). With --print-schema: that of an HMC',
    )
    configs.add_options(parser)
    parser.add_argument(
        '--report',
        metavar='FILE',
        help='write the answers to a file, as JSON; it names nothing of the '
        'host, and may be published as it is',
    )
    parser.add_argument(
        '--print-schema',
        action='store_true',
        help='print the JSON schema of the report, and exit',
    )
    return parser


def _add_target_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--target',
        type=slot_access.filled,
        metavar='SYSTEM',
        help='partition: make no LPAR, but have PowerVM validate whether one '
        'that runs could move to this managed system; nothing is moved, and '
        'no keys are exchanged',
    )
    parser.add_argument(
        '--server',
        type=slot_access.filled,
        metavar='LPAR',
        help='the LPAR of --target, by name or UUID',
    )
    parser.add_argument(
        '--address',
        default='',
        help='address of the NovaLink partition of --target',
    )


def _mode_of(
    parser: argparse.ArgumentParser, options: argparse.Namespace
) -> str:
    """Return the mode, or end the command if the options contradict it."""
    is_moving = bool(options.target or options.server or options.address)
    if options.mode == _HOST:
        if options.slot or is_moving:
            parser.error('--slot, --target and --server belong to partition')
        return _HOST if options.system is None else HMC
    if options.system is not None:
        parser.error('--system belongs to host')
    if options.slot and is_moving:
        parser.error('--slot and --target exclude each other')
    if is_moving and not (options.target and options.server):
        parser.error('--target and --server belong together')
    if is_moving:
        return _TARGET
    return _SLOT if options.slot else _PARTITION


def check_host(
    config: configs.Config,
    wanted: str | None = None,
) -> tuple[str, list[answers.Result[Any]], Mapping[str, float]]:
    """Make the checks of the mode ``host``, and print them.

    :param wanted: Name of the managed system, or machine type, model and
        serial number; None for the only one.
    :returns: The mode of the report, the results, and the seconds of the
        reads.
    :raises exception.PowerVMError: The host does not let the driver log on, or
        it is not clear which system is meant.
    """
    server = config.settings.server
    print(f'The host at {server}, which is only read:\n', flush=True)
    with host.logged_on(server) as adapter:
        found = hmc_inspection.inspect(adapter, server, wanted)
        is_hmc = isinstance(found, hmc_inspection.HmcInspection)
        mode = HMC if is_hmc else _HOST
        results = answers.run(
            MODES[mode],
            found,
            functools.partial(print_question, mode=mode),
            print_answer,
        )
    print_summary(results)
    if is_hmc:
        print(f'\n{_ABOUT_HMC}')
    return mode, results, found.durations


def check_partition(
    config: configs.Config,
    *,
    is_agreed: bool,
    access: slot_access.Access | None = None,
) -> list[answers.Result[Any]]:
    """Make the checks of the mode ``partition``, and print them.

    :param is_agreed: Whether the user has agreed already.
    :param access: Decides on the slot to try; None to try none.
    :returns: Their results.
    :raises exception.PowerVMError: The host is an HMC, has too little room,
        or does not let the driver log on; the user does not agree; or
        something could not be removed afterwards.
    """
    settings = config.settings
    mode = _SLOT if access else _PARTITION
    with host_reader.logged_on(settings.server) as (adapter, managed):

        def begin() -> trial.Trial:
            if access is None:
                return trial.Trial(adapter, managed, settings)
            own = trial.names_for(managed.read().machine).lpars
            slot = access.choose(slot_trial.Host(adapter, own))
            return slot_trial.SlotTrial(adapter, managed, settings, slot)

        this = begin()
        this.check_identity()
        left = this.leftovers()
        if not left:
            this.check_room()
        print(f'The host at {settings.server}:\n')
        for text in [*_intentions(this, left, access)]:
            print(f'- {printable.printable(text)}')
        if not is_agreed:
            _ask()
        print(flush=True)
        if left:
            _remove(this)
        if left or access:
            # Somebody may have taken the slot while the user made sure.
            this = begin()
            this.check_room()
        try:
            results = answers.run(
                MODES[mode],
                this,
                functools.partial(print_question, mode=mode),
                print_answer,
            )
        except KeyboardInterrupt:
            print('\nInterrupted: removing all that was made', flush=True)
            raise
        finally:
            _remove(this)
    print_summary(results)
    return results


def _remove(this: trial.Trial) -> None:
    """Remove all that there is; say what to do if that is not possible."""
    try:
        this.clean_up()
    except (Exception, KeyboardInterrupt) as error:
        left = [*this.names.lpars.values(), *sorted(this.names.of_storage)]
        if not isinstance(error, KeyboardInterrupt):
            with contextlib.suppress(Exception):
                left = this.leftovers()
        print(
            '\nNot everything was removed. Run the command again, which '
            f'removes it first. What may be left: {answers.listed(left)}',
            flush=True,
        )
        raise


def check_target(
    config: configs.Config, options: argparse.Namespace
) -> list[answers.Result[Any]]:
    """Make the checks of an LPAR that could move, and print them.

    :param options: The command line.
    :returns: Their results.
    :raises exception.PowerVMError: The host is an HMC, does not let the driver
        log on, or has no such LPAR that runs; or the user does not agree.
    """
    server = config.settings.server
    target = live_migration.Target(options.target, options.address)
    with host_reader.logged_on(server) as (adapter, managed):
        this = migration_trial.Validation(
            adapter, managed, options.server, target
        )
        print(
            f'The host at {server}:\n\n- PowerVM validates whether LPAR '
            f'{printable.printable(this.lpar.name)} could move to '
            f'{printable.printable(target.system)}{_at(target.address)}: it '
            'moves nothing, and no keys are exchanged'
        )
        if not options.yes:
            _ask()
        print(flush=True)
        results = answers.run(
            target_checks.CHECKS,
            this,
            functools.partial(print_question, mode=_TARGET),
            print_answer,
        )
    print_summary(results)
    return results


def _at(address: str) -> str:
    return f' (NovaLink at {printable.printable(address)})' if address else ''


def _intentions(
    this: trial.Trial,
    left: Sequence[str],
    access: slot_access.Access | None,
) -> Iterator[str]:
    """Yield what the mode ``partition`` is about to do, in words."""
    if left:
        yield (
            'An earlier run has left this, or another one works with it now. '
            f'This run removes it: {answers.listed(left)}'
        )
    spec = this.spec
    yield (
        f'LPAR {spec.name} ({spec.uuid}) is made, started, stopped and '
        f'deleted: {spec.settings}'
    )
    if access:
        yield from access.intentions(this.spec)
        return
    adapter = this.adapter_wanted()
    yield (
        'It gets no network adapter: there is no bridge, or no VLAN that '
        'nobody has'
        if adapter is None
        else f'It gets a network adapter on VLAN {adapter.vlan} of '
        f'{adapter.switch}, which nobody has'
    )
    why = this.why_no_disk()
    yield (
        f'No disk is made: {why}'
        if why
        else f'Disk {this.names.disk} of up to {trial.GROWN_GB} GB is made '
        f'in {this.group}, and deleted'
    )
    why = this.why_no_medium()
    yield (
        f'No medium is made: {why}'
        if why
        else f'Medium {this.names.medium} is made in the media repository, '
        'and deleted'
    )
    why = this.pool.why_none()
    yield (
        f'Nothing is made in a shared storage pool: {why}'
        if why
        else f'Logical units {" and ".join(this.names.units)} are made in '
        f'{this.pool.units}, and deleted'
    )


def _ask() -> None:
    """Ask the user to agree.

    :raises exception.ConfigurationError: The user does not, or is not there.
    """
    try:
        answer = input('\nGo on? Type yes: ')
    except EOFError:
        answer = ''
    if answer.strip().lower() != 'yes':
        raise exception.ConfigurationError(
            reason='nothing was changed: type yes, or give --yes'
        )


def print_question(
    number: int, check: answers.Check[Any], *, mode: str
) -> None:
    """Print the beginning of a row, so that a user sees what takes long."""
    place = f'{number:2}/{len(MODES[mode])}'
    print(f'{place}  {check.title:{_TITLE_WIDTH}}', end='  ', flush=True)


def print_answer(result: answers.Result[Any]) -> None:
    """Print the rest of a row."""
    answer = result.answer
    differs = answer.outcome is answers.Outcome.DIFFERS
    verdict = result.check.meaning if differs else answer.outcome
    value = '' if answer.value is None else _printed(answer.value)
    if answer.detail and isinstance(answer.value, bool):
        # The words say it, too.
        value = ''
    words = '; '.join(filter(None, (value, answer.detail)))
    text = f'{verdict:{_OUTCOME_WIDTH}}  {printable.printable(words)}'
    print(text.rstrip(), flush=True)


def _printed(value: object) -> str:
    """Return a value of an answer in words."""
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, dict):
        return ', '.join(f'{name} {number}' for name, number in value.items())
    if isinstance(value, list):
        return answers.listed(value)
    return str(value)


def print_summary(results: Sequence[answers.Result[Any]]) -> None:
    """Print what differs and what follows, and how many checks agree."""
    for result in results:
        if result.meaning:
            check = result.check
            print(f'\n{result.number}. {check.title}: {_conclusion(result)}.')
            _print_indented(f'Assumed: {check.assumes}')
            _print_indented(check.otherwise)
    counts = collections.Counter(result.answer.outcome for result in results)
    words = [f'{counts[o]} {o}' for o in answers.Outcome if counts[o]]
    print(f'\n{len(results)} checks: {", ".join(words)}')
    for meaning in (answers.Meaning.UNFIT, answers.Meaning.OFF):
        numbers = [
            str(result.number)
            for result in results
            if result.meaning is meaning
            and result.answer.outcome is answers.Outcome.DIFFERS
        ]
        if numbers:
            print(f'{str(meaning).capitalize()}: {", ".join(numbers)}')


def _print_indented(text: str) -> None:
    lines = textwrap.wrap(
        text.replace('``', ''),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
    )
    print('\n'.join(lines))


def _conclusion(result: answers.Result[Any]) -> str:
    """Return in words what a difference or an error means."""
    if result.answer.outcome is answers.Outcome.DIFFERS:
        return str(result.meaning)
    return f'{result.answer.outcome}; if that stays so, {result.meaning}'


def write_report(path: str, document: Mapping[str, Any]) -> None:
    """Write the report of a run.

    :raises OSError: The file can't be written.
    """
    text = json.dumps(document, indent=2)
    pathlib.Path(path).write_text(f'{text}\n', encoding='utf-8')
    print(f'Report: {path}')


def exit_code(results: Sequence[answers.Result[Any]]) -> int:
    """Return the exit code for what was found."""
    found = {(result.meaning, result.answer.outcome) for result in results}
    if (answers.Meaning.UNFIT, answers.Outcome.DIFFERS) in found:
        return exit_codes.UNFIT
    if (answers.Meaning.UNFIT, answers.Outcome.ERROR) in found:
        return exit_codes.TROUBLE
    if answers.Meaning.OFF in {meaning for meaning, _ in found}:
        return exit_codes.WARNINGS
    return exit_codes.SUCCESS
