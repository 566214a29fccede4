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
import pathlib
import string
import unittest

import ddt

from nova_powervm import exception

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
        for node in ast.walk(tree):
            made = class_of(node)
            if made:
                yield f'{name}:{node.lineno}', made, node.keywords, caught


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
        texts = longest(node.body), longest(node.orelse)
        return max((t or '' for t in texts), key=len)
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
        'PrivateText'
    ):
        return longest(node.args[1])
    return None


class RaisingTest(unittest.TestCase):
    maxDiff = None

    def test_nova_keeps_reason_and_cure_of_refusals(self):
        found = []
        for place, made, keywords, _ in calls():
            texts = {
                k.arg: longest(k.value) or sample(k.value) for k in keywords
            }
            shown = {
                name: 1000.5 if name in numeric(made) else texts.get(name, '')
                for name in fields(made.user_message)
            }
            text = made.user_message.format(**shown)
            error = made(**dict.fromkeys(fields(made.message), 0))
            is_private = error.withholds or any(
                'PrivateText' in ast.unparse(k.value)
                for k in keywords
                if k.arg in shown
            )
            if len(text) > ROOM - REFERENCE * is_private:
                found.append((place, made.__name__, len(text), text))
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
