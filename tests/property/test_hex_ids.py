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

"""Ids of four or two digits are read as written or refused."""

import functools
import itertools
import os
import unittest

import yaml

from nova_powervm import exception
from nova_powervm import inventory_file
from tests import proofs

_KEYS = {
    4: (
        'vendor_id',
        'device_id',
        'subsys_vendor_id',
        'subsys_device_id',
        'class',
    ),
    2: ('revision_id',),
}
# The one in C is faster, and not everywhere.
_Loader = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
#: Values of one file. There may be a problem for each.
_AT_ONCE = 400
#: One of each kind that YAML tells apart: 0 and 1 begin and make up numbers
#: of other bases, 8 and 9 are no octal digits, and of the letters only b and
#: e can be in a number. Two more stand for the others.
_KINDS = '01789abef'
#: Decimal and octal digits among them.
_DECIMALS, _OCTALS = 5, 3
if os.environ.get('NOVA_POWERVM_TEST_SEED'):
    # tools/soak.sh properties
    _KINDS, _DECIMALS, _OCTALS = '0123456789abcdef', 10, 8


@functools.cache
def is_number(value):
    """Return whether YAML 1.1 takes a value for a number."""
    return yaml.load(value, _Loader) != value  # noqa: S506 - a SafeLoader


def count_numbers(digits):
    """Return how many values are decimal or octal numbers."""
    rest = digits - 1
    return (_DECIMALS - 1) * _DECIMALS**rest + _OCTALS**rest


def every(digits, form):
    """Return every number of so many digits as text."""
    kinds = _KINDS.upper() if form == 'X' else _KINDS
    return [''.join(each) for each in itertools.product(kinds, repeat=digits)]


def read(digits, written):
    """Read values, each on its own line.

    :returns: What was read, by value as written; None if it is refused.
    """
    lines = [*_lines(_KEYS[digits], written)]
    try:
        policy = inventory_file.parse(
            '\n'.join(line for line, _ in lines), 'x'
        )
    except exception.PolicyInvalid as error:
        bad = {problem.line for problem in error.fields['problems']}
        good = [v for n, (_, v) in enumerate(lines, 1) if n not in bad and v]
        found = read(digits, good) if good else {}
        return {value: found.get(value) for value in written}
    values = (v for p in policy.paragraphs for v in p.identification.values())
    return dict(zip(written, values, strict=True))


def _lines(keys, written):
    for start in range(0, len(written), len(keys)):
        yield f'p{start}:', None
        yield '  identification:', None
        values = written[start : start + len(keys)]
        for key, value in zip(keys, values, strict=False):
            yield f'    {key}: {value}', value


class ExhaustiveIdTest(unittest.TestCase):
    """Reading an id returns its text or an error."""

    def check_plain(self, digits, form):
        # Sorted by refusal, so that few files have to be read twice.
        values = sorted(every(digits, form), key=is_number)
        refused = 0
        for start in range(0, len(values), _AT_ONCE):
            some = values[start : start + _AT_ONCE]
            for value, found in read(digits, some).items():
                if found is None:
                    refused += 1
                else:
                    self.assertEqual(value.upper(), found)
                    self.assertFalse(is_number(value), value)
        return refused

    def check_quoted(self, digits, form, quote):
        # Without quotation marks, YAML would read them as something else.
        values = [
            f'{quote}{value}{quote}'
            for value in every(digits, form)
            if is_number(value)
        ]
        for start in range(0, len(values), _AT_ONCE):
            some = values[start : start + _AT_ONCE]
            for value, found in read(digits, some).items():
                self.assertEqual(value.strip(quote).upper(), found)

    @proofs.proves('D25')
    def test_unquoted_upper_case_ids_of_four_digits_are_kept_or_refused(self):
        self.assertEqual(count_numbers(4), self.check_plain(4, 'X'))

    def test_unquoted_lower_case_ids_of_four_digits_are_kept_or_refused(self):
        # 0b, which begins a binary number, and two of its digits, as well.
        self.assertEqual(count_numbers(4) + 4, self.check_plain(4, 'x'))

    @proofs.proves('D25')
    def test_quoted_upper_case_ids_of_four_digits_are_kept(self):
        self.check_quoted(4, 'X', "'")

    @proofs.proves('D29')
    def test_quoted_lower_case_ids_of_four_digits_are_kept(self):
        self.check_quoted(4, 'x', '"')

    @proofs.proves('D26')
    def test_unquoted_ids_of_two_digits_are_kept_or_refused(self):
        self.assertEqual(count_numbers(2), self.check_plain(2, 'X'))
        self.assertEqual(count_numbers(2), self.check_plain(2, 'x'))

    def test_quoted_ids_of_two_digits_are_kept(self):
        for quote in ('"', "'"):
            self.check_quoted(2, 'X', quote)
            self.check_quoted(2, 'x', quote)
