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

"""What errors say to users of the cloud.

Before, faults and events showed every tenant the internal URL of the REST API,
what the host answered, and names of hosts, bridges, Virtual I/O Servers and of
LPARs of others.
"""

import ast
import collections
import copy
import itertools
import pathlib
import string
import unittest
from unittest import mock

import ddt
from nova import objects
from oslo_context import context

from nova_powervm import exception
from nova_powervm.devices import accelerators
from nova_powervm.devices import slots

objects.register_all()

from nova_powervm.virt import errors  # noqa: E402
from nova_powervm.virt import instance_volumes  # noqa: E402

SOURCES = pathlib.Path(exception.__file__).parent
#: Other processes than nova-compute.
NOT_COMPUTE = ('tool', 'cyborg')
#: Values that name what is not the user's.
PRIVATE_NAMES = {'bridge', 'holder', 'host', 'other', 'path', 'server'}
#: Errors of oslo.utils about the bytes of the user's image.
OWN_IMAGE = {'ops/images.py'}
SECRET = 'https://novalink.example.org:12443 HSCL0001 of payroll'


def classes(base=exception.PowerVMError):
    """Yield the classes of errors of nova_powervm.exception."""
    for each in base.__subclasses__():
        if each.__module__ == exception.__name__:
            yield each
            yield from classes(each)


CLASSES = sorted(set(classes()), key=lambda each: each.__name__)


def fields(pattern):
    """Return the fields of a pattern."""
    return {
        name for _, name, _, _ in string.Formatter().parse(pattern) if name
    }


def numeric(each):
    """Return the fields of a class that are formatted as numbers."""
    parsed = string.Formatter().parse(each.message)
    return {name for _, name, form, _ in parsed if form}


@ddt.ddt
class ClassTest(unittest.TestCase):
    @ddt.data(*CLASSES)
    def test_class_decides_what_users_read(self, each):
        deciding = next(c for c in each.__mro__ if 'user_message' in vars(c))
        self.assertIsNot(exception.PowerVMError, deciding)
        unknown = fields(each.user_message) - exception.FIELDS_FOR_USERS
        self.assertEqual(set(), unknown)

    @ddt.data(*CLASSES)
    def test_summary_has_no_private_text(self, each):
        names = fields(each.message) | fields(each.user_message)
        for value in (
            exception.PrivateText(SECRET, 'told'),
            ValueError(SECRET),
            exception.RestUnreachable(server=SECRET, reason=SECRET),
        ):
            error = each(
                **dict.fromkeys(names, value)
                | dict.fromkeys(numeric(each), 1.5)
            )
            if names - numeric(each):
                self.assertIn(SECRET, str(error))
            self.assertNotIn(SECRET, error.summary)
            self.assertTrue(error.withholds or not names - numeric(each))

    @ddt.data(*CLASSES)
    def test_field_that_is_not_for_users_is_not_shown(self, each):
        names = fields(each.message) | fields(each.user_message)
        values = {
            name: 1.5 if name in numeric(each) else f'<{name}>'
            for name in names
        }
        summary = each(**values).summary
        for name in names - exception.FIELDS_FOR_USERS:
            self.assertNotIn(f'<{name}>', summary)


class DefaultTest(unittest.TestCase):
    def test_class_without_decision_says_nothing(self):
        error = exception.PowerVMError(reason=SECRET)
        self.assertEqual('The host could not do this.', error.summary)
        self.assertTrue(error.withholds)

    def test_reference_code_of_own_panel_is_shown(self):
        error = exception.RestError(
            action='it', reason=SECRET, reference_code='BA210000'
        )
        self.assertEqual(
            'The host could not do this. It shows reference code BA210000.',
            error.summary,
        )

    def test_complete_message_withholds_nothing(self):
        error = exception.RootDiskTooSmall(image='i', needed_gb=2, flavor_gb=1)
        self.assertEqual((str(error), False), (error.summary, error.withholds))


#: The most that an instance can have of something, and more.
UUIDS = [f'{number:08}-0000-4000-8000-{"f" * 12}' for number in range(8)]
SLOTS = slots.format_drc_indexes(range(0x21010020, 0x21010028))
OTHERS = slots.format_drc_indexes(range(0x2101002F, 0x21010037))
NAMES = {'name': 'n' * 31, 'instance_uuid': UUIDS[0], 'reason': 'r' * 200}


@ddt.ddt
class ListingTest(unittest.TestCase):
    """What users read of long lists fits, and its remedy with it."""

    def setUp(self):
        super().setUp()
        # What users read has the id of this request.
        context.RequestContext()

    def check(self, error, *words):
        """Verify how an error is shown to users."""
        with self.assertLogs(errors.LOG.logger, 'INFO') as logs:
            text = errors.for_users(error)
        self.assertIn(str(error), logs.output[0])
        self.assertLessEqual(len(text), ROOM, text)
        self.assertRegex(text, r' \(log: req-[0-9a-f-]{36}\)$')
        for word in words:
            self.assertIn(word, text)
            self.assertNotIn(word, NAMES['reason'])

    @ddt.data(
        (exception.SlotsDiffer, 'but makes new disks. (log'),
        (exception.DocumentDiffers, ']. (log'),
    )
    @ddt.unpack
    def test_slots_of_both_sides_are_shortened(self, made, end):
        error = made(**NAMES, wanted=SLOTS, found=OTHERS)
        self.check(error, '[21010020', '[2101002F', ' more]', end)
        self.assertIn('21010027', str(error))
        self.assertIn('21010036', str(error))

    def test_short_list_of_slots_is_shown_whole(self):
        few = slots.format_drc_indexes([0x21010020, 0x21010021])
        error = exception.SlotsMissing(slots=few, **NAMES)
        self.assertEqual(
            'The server lacks the slots 21010020, 21010021. Reboot it hard to '
            'give them back.',
            error.summary,
        )

    def test_ports_are_shortened(self):
        self.check(
            exception.PortsNotPlugged(
                ports=exception.Listing(UUIDS),
                seconds=300,
                reason='Neutron reported a failure',
            ),
            f'{UUIDS[0]} and 7 more were not plugged',
            'Neutron reported a failure. (log',
        )

    def test_volumes_are_shortened(self):
        with (
            mock.patch.object(
                instance_volumes,
                'recorded_ids',
                return_value=frozenset(UUIDS),
            ),
            self.assertRaises(exception.MoveRefused) as caught,
        ):
            instance_volumes.refuse_changing(None)
        self.check(
            caught.exception,
            f'attached or detached: {UUIDS[0]} and 7 more. Try',
            'or detach them (log',
        )
        self.assertIn(UUIDS[7], str(caught.exception))

    def test_lost_accelerators_are_shortened(self):
        with self.assertRaises(exception.AcceleratorRefused) as caught:
            accelerators.refuse_lost(UUIDS[0], range(12), ())
        self.check(caught.exception, ' more. Bind', 'a new server (log')

    def test_reasons_are_shortened(self):
        refused = ['a reason of fifty characters, '.ljust(50, 'x')] * 8
        self.check(
            exception.InstanceRefused(
                instance_uuid=UUIDS[0], reason=exception.Listing(refused, '; ')
            ),
            f'{refused[0]}; {refused[1]}; and 6 more (log',
        )

    def test_copy_lists_the_same(self):
        listing = exception.Listing(['a', 'b', 'c'], '; ', 'of ', ' only')
        made = copy.deepcopy(listing)

        self.assertEqual('of a; b; c only', made)
        self.assertEqual('of a; and 2 more only', made.first(1))

    def test_remedy_of_guest_that_stays_off_comes_first(self):
        long = exception.PortRefused(port=UUIDS[0], reason='r' * 200)
        self.check(
            exception.GuestStaysOff(reason=long, second=long),
            'Start the server, or reboot it hard.',
        )


def calls():
    """Yield where errors are made: the place, the class and the arguments."""
    for path in sorted(SOURCES.rglob('*.py')):
        name = path.relative_to(SOURCES)
        if name.parts[0] in NOT_COMPUTE:
            continue
        tree = ast.parse(path.read_text())
        caught = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ExceptHandler) and node.name
        }
        values = values_of(tree)
        for node in ast.walk(tree):
            made = class_of(node)
            if made:
                keywords = [
                    ast.keyword(k.arg, resolved(k.value, values))
                    for k in node.keywords
                ]
                yield f'{name}:{node.lineno}', made, keywords, caught


def values_of(tree):
    """Return what functions return, and what is assigned to names in them."""
    found = collections.defaultdict(list)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value:
                found[function.name].append(node.value)
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    found[ast.unparse(target)].append(node.value)
    return found


def resolved(node, values):
    """Return an expression with what its name or its call stands for."""
    name = getattr(node, 'func', node)
    found = values.get(ast.unparse(name).removeprefix('self.'), ())
    if isinstance(node, ast.Name | ast.Call) and found:
        choices = [one for one in found if is_text(one)]
        for one in choices:
            node = ast.IfExp(ast.Constant(value=True), one, node)
    return node


def is_text(node):
    """Return whether an expression makes a text."""
    return longest(node) is not None


def class_of(node):
    """Return the class of errors that a node creates, or None."""
    if not isinstance(node, ast.Call) or not isinstance(
        node.func, ast.Attribute
    ):
        return None
    owner, name = node.func.value, node.func.attr
    if not isinstance(owner, ast.Name) or owner.id != 'exception':
        return None
    found = getattr(exception, name)
    return found if issubclass(found, exception.PowerVMError) else None


def interpolated(node):
    """Yield the names in texts that are made of others, but private ones."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
        'PrivateText'
    ):
        # What users read of it.
        yield from interpolated(node.args[1])
    elif isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Call) and ast.unparse(node.func) == 'str'
    ):
        for each in ast.walk(node):
            if isinstance(each, ast.Attribute) and each.attr == 'summary':
                each.value = ast.Constant('for users')
        yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
    else:
        for child in ast.iter_child_nodes(node):
            yield from interpolated(child)


#: What is left of the 255 characters that Nova keeps, beside its own words:
#: "Build of instance <uuid> aborted: ".
ROOM = 190
#: What the id of the request takes of that, if the log has more.
REFERENCE = len(f' (log: req-{36 * "x"})')


def sample(node):
    """Return a text of a usual length for what an expression puts in."""
    name = ast.unparse(node)
    if 'uuid' in name or name.endswith('.id'):
        return 'x' * 36
    return 'x' * (31 if 'name' in name else 8)


def longest(node):
    """Return the longest text that an expression can have; None if unknown."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return ''.join(
            part.value if isinstance(part, ast.Constant) else sample(part)
            for part in node.values
        )
    if isinstance(node, ast.IfExp):
        return max(map(text_of, alternatives(node)), key=len)
    if calls_of(node, 'PrivateText'):
        return longest(node.args[1])
    if calls_of(node, 'Listing'):
        texts = {k.arg: longest(k.value) for k in node.keywords}
        return texts.get('before', '') + MORE + texts.get('after', '')
    return None


def alternatives(node):
    """Yield the expressions among which conditions choose."""
    if isinstance(node, ast.IfExp):
        yield from alternatives(node.body)
        yield from alternatives(node.orelse)
    else:
        yield node


def text_of(node):
    """Return the longest text of an expression, or a usual one."""
    return longest(node) or sample(node)


def calls_of(node, name):
    """Return whether an expression calls a function of a name."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith(name)


#: What is shown at least of a list of uuids.
MORE = f'{"x" * 36} and 7 more'


def unbounded(node):
    """Yield the lists in what users read that are not shortened."""
    if calls_of(node, 'PrivateText'):
        yield from unbounded(node.args[1])
    elif isinstance(node, ast.JoinedStr):
        for part in ast.walk(node):
            if calls_of(part, 'join') or calls_of(part, 'format_drc_indexes'):
                yield ast.unparse(part)
    elif calls_of(node, 'join'):
        yield ast.unparse(node)
    elif not (
        calls_of(node, 'Listing') or calls_of(node, 'format_drc_indexes')
    ):
        for child in ast.iter_child_nodes(node):
            yield from unbounded(child)


#: Lists that cannot be long.
SHORT = {
    "' or '.join(formats)",
    "' or '.join(map(str, choices))",
    "', '.join(sorted(self._drivers))",
}


class RaisingTest(unittest.TestCase):
    maxDiff = None

    def test_nova_keeps_reason_and_cure_of_refusals(self):
        found = []
        for place, made, keywords, _ in calls():
            names = fields(made.user_message)
            choices = [
                [(k.arg, one) for one in alternatives(k.value)]
                for k in keywords
                if k.arg in names
            ]
            error = made(**dict.fromkeys(fields(made.message), 0))
            for chosen in map(dict, itertools.product(*choices)):
                text = made.user_message.format(
                    **{
                        name: 1000.5
                        if name in numeric(made)
                        else name in chosen and text_of(chosen[name])
                        for name in names
                    }
                )
                is_private = error.withholds or any(
                    calls_of(one, 'PrivateText') for one in chosen.values()
                )
                if len(text) > ROOM - REFERENCE * is_private:
                    found.append((place, made.__name__, len(text), text))
        self.assertEqual([], found)

    def test_lists_that_users_read_are_shortened(self):
        found = [
            (place, made.__name__, text)
            for place, made, keywords, _ in calls()
            for keyword in keywords
            if keyword.arg in fields(made.user_message)
            for text in unbounded(keyword.value)
            if text not in SHORT
        ]
        self.assertEqual([], found)

    def test_texts_for_users_name_nothing_private(self):
        found = []
        for place, made, keywords, caught in calls():
            shown = fields(made.user_message)
            for keyword in keywords:
                if keyword.arg not in shown:
                    continue
                names = set(interpolated(keyword.value))
                if place.partition(':')[0] in OWN_IMAGE:
                    names -= caught
                found += [
                    f'{place} {made.__name__}({keyword.arg}): {name}'
                    for name in sorted(names & (caught | PRIVATE_NAMES))
                ]
        self.assertEqual([], found)
