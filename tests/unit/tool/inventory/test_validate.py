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

"""The command validate."""

import contextlib
import csv
import io
import os
import pathlib
import unittest

from hypothesis import given
from hypothesis import strategies as st

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.devices import policy as policies
from nova_powervm.tool.inventory import file_findings
from nova_powervm.tool.inventory import validate
from tests import proofs
from tests.unit.tool.inventory import base

BAD = """\
gpus:
  identification:
    vendor_id: 1014
  resource_class: VCPU
"""
CLASHING = """\
gpus:
  identification: {class: "0302"}
nvidia:
  identification: {vendor_id: "10DE"}
"""
WIRED = """\
ports:
  identification: {class: "0200"}
"""
CRYPTO = """\
crypto:
  identification: {vendor_id: "1014", device_id: "0634"}
  resource_class: CUSTOM_CRYPTO
"""
NOWHERE = """\
other:
  identification: {vendor_id: "ABCD"}
"""


class FileTestCase(base.ToolTestCase):
    def check(self, text, *arguments):
        """Validate a text or bytes, as a file of its own."""
        path = self.write('checked.yaml', '')
        encoded = text if isinstance(text, bytes) else text.encode()
        pathlib.Path(path).write_bytes(encoded)
        return self.run_tool('validate', path, *arguments)

    def assert_finding(self, result, severity, paragraph, *words):
        """Assert that there is one finding with these words."""
        (row,) = result.json
        self.assertEqual(severity == 'error', result.status == 2)
        found = (row['Severity'], row['Paragraph'])
        self.assertEqual((severity, paragraph), found)
        for word in words:
            self.assertIn(word, row['Problem'])
        return row


class OfflineTest(FileTestCase):
    def check(self, text, *arguments):
        return super().check(text, '--offline', *arguments)

    @proofs.proves('device.validate-cli')
    def test_exit_code_follows_the_worst_finding(self):
        for text, arguments, status in (
            (base.GPUS, (), 0),
            ('', (), 1),
            ('', ('--fatal-warnings',), 2),
            (BAD, (), 2),
            (base.GPUS, ('--fatal-warnings',), 0),
        ):
            for output in ((), ('-f', 'json')):
                with self.subTest(text=text, arguments=arguments + output):
                    result = self.check(text, *arguments, *output)
                    self.assertEqual(status, result.status, result)
                    self.assertEqual('', result.err)

    @proofs.proves('device.validate-cli')
    def test_problems_are_those_of_the_service(self):
        result = self.check(BAD, '-f', 'json')
        with self.assertRaises(exception.PolicyInvalid) as caught:
            inventory_file.parse(BAD, 'x')
        self.assertEqual(
            [
                (
                    'error',
                    p.line,
                    p.column,
                    p.paragraph,
                    p.what,
                    p.hint,
                    p.code,
                )
                for p in caught.exception.fields['problems']
            ],
            [tuple(row.values()) for row in result.json],
        )

    def test_report_shows_the_lines_around_a_problem(self):
        lines = self.check(BAD).out.splitlines()
        self.assertIn('checked.yaml:3:16: error: ', lines[0])
        self.assertEqual(
            [
                '  1 | gpus:',
                '  2 |   identification:',
                '  3 |     vendor_id: 1014',
                '    |                ^',
                '  4 |   resource_class: VCPU',
            ],
            lines[1:6],
        )
        self.assertIn("quote it: '1014'", lines[6])
        self.assertIn('2 errors, 0 warnings', lines[-1])

    def test_valid_file_has_no_problems(self):
        *_, summary, unchecked = self.check(base.GPUS).out.splitlines()
        self.assertIn('checked.yaml: no problems.', summary)
        self.assertIn('Not checked without a host: ', unchecked)
        self.assertNotIn('Not checked', self.check(BAD).out)
        # The default is the file of nova.conf.
        result = self.succeed('validate', '--offline')
        self.assertIn(self.inventory, result.out)

    def test_overlap_on_any_host_is_a_warning(self):
        text = base.GPUS + (
            'rest:\n  identification: {drc_name: "*"}\n'
            '  resource_class: CUSTOM_REST\n'
        )
        words = "each device that paragraph 'gpus' (line 1) identifies"
        result = self.check(text, '-f', 'json')
        self.assert_finding(result, 'warning', 'rest', words)
        self.assertEqual(0, self.check(CLASHING).status)

    def test_empty_or_missing_default_file_is_a_warning(self):
        os.unlink(self.inventory)
        for result, problem, effect in (
            (
                self.check('# nothing\n'),
                'the file has no paragraph',
                'nova-compute starts with it.',
            ),
            (
                self.run_tool('validate', '--offline'),
                'there is no such file',
                'nova-compute starts without the file and offers no device.',
            ),
        ):
            self.assertEqual(1, result.status)
            self.assertIn(problem, result.out)
            self.assertIn(effect, result.out)

    def test_missing_named_file_is_an_error_and_nothing_is_claimed(self):
        for name in ('typo.yaml', ''):
            for arguments in (('--offline',), ()):
                with self.subTest(name=name, arguments=arguments):
                    result = self.run_tool('validate', name, *arguments)
                    self.assertEqual((2, ''), (result.status, result.err))
                    words = f'{name}: error: there is no such file'
                    self.assertIn(words, result.out)
                    self.assertNotIn('nova-compute', result.out)
        listed = self.run_tool('validate', 'typo.yaml', '-f', 'json').json
        self.assertEqual(['error'], [row['Severity'] for row in listed])

    def test_standard_input_is_validated(self):
        result = self.run_tool('validate', '-', '--offline', stdin=BAD)
        self.assertEqual(2, result.status)
        self.assertIn('<stdin>:3:16: error', result.out)
        self.assertIn('3 |     vendor_id: 1014', result.out)

    def test_file_that_is_not_safe_or_readable_is_an_error(self):
        pipe = self.directory / 'pipe'
        os.mkfifo(pipe, mode=0o644)
        writable, binary = self.directory / 'writable', self.directory / 'bin'
        writable.write_text(base.GPUS)
        writable.chmod(0o666)
        binary.write_bytes(b'gpus:\n  \xff: 1\n')
        binary.chmod(0o644)
        for path, words in (
            (pipe, 'it is not a regular file'),
            (writable, 'chmod o-w'),
            (self.directory, 'error'),
            (binary, 'bin:2:3: error: byte 0xFF'),
        ):
            with self.subTest(path):
                result = self.run_tool('validate', path, '--offline')
                self.assertEqual(2, result.status)
                self.assertIn(words, result.out)

    def test_findings_are_listed_in_each_format(self):
        rows = list(csv.reader(self.check(BAD, '-f', 'csv').out.splitlines()))
        self.assertEqual(3, len(rows))
        self.assertEqual('Severity', rows[0][0])
        result = self.check(BAD, '-f', 'value', '-c', 'Line')
        self.assertEqual('3\n4\n', result.out)
        result = self.check(BAD, '-f', 'table', '--sort-column', 'Line')
        self.assertIn('| Severity |', result.out)


class HostTest(FileTestCase, base.HostTestCase):
    @proofs.proves('device.validate-cli')
    def test_offered_devices_are_counted_by_class(self):
        result = self.succeed('validate')
        self.assertRegex(
            result.out, r'offers 4 of the 14 slots of http://\S+: 4 CUSTOM_GPU'
        )

    def test_device_in_two_paragraphs_is_an_error(self):
        result = self.check(CLASHING, '-f', 'json')
        row = self.assert_finding(
            *(result, 'error', 'nvidia'),
            'slot 21010020 at U78D2.001.EMU0001-P1-C3',
            "paragraph 'gpus' (line 1)",
            "paragraph 'nvidia' (line 3)",
        )
        self.assertEqual(3, row['Line'])
        self.assertNotIn('It offers', self.check(CLASHING).out)

    @proofs.proves('D4')
    def test_paragraph_without_suitable_slot_is_a_warning(self):
        for text, paragraph, words in (
            (base.GPUS + NOWHERE, 'other', 'identifies no device'),
            (WIRED, 'ports', 'connected to a network'),
        ):
            with self.subTest(words):
                result = self.check(text, '-f', 'json')
                self.assert_finding(result, 'warning', paragraph, words)
                self.assertEqual(1, result.status)
        result = self.check(NOWHERE, '-f', 'json')
        self.assertEqual(1, result.status)
        self.assertIn('no paragraph offers', result.json[0]['Problem'])

    def test_slot_that_is_not_free_is_listed_with_the_reason(self):
        result = self.check(WIRED)
        self.assertIn('It offers 0 of the 14 slots', result.out)
        words = r'not free now: slot 21010028 .*: it is owned by VIOS vios1'
        self.assertRegex(result.out, words)
        self.emulator.control.set_owner('21010020', 'database')
        self.assertIn(
            'it is owned by partition database, which Nova may run: only '
            'Placement knows',
            self.succeed('validate').out,
        )
        self.emulator.control.plug('21010021', {'assignable': False})
        result = self.succeed('validate')
        self.assertIn('offers 2 of the 14 slots', result.out)
        words = r'not free now: slot 21010021 .*: the host does not allow part'
        self.assertRegex(result.out, words)

    def test_invalid_file_needs_no_host(self):
        self.emulator.control.power_off_system()
        result = self.check(BAD)
        self.assertEqual((2, ''), (result.status, result.err))
        self.assertIn('2 errors', result.out)


class AcceleratorsTest(FileTestCase, base.HostTestCase):
    """Checks of Cyborg's file beside Nova's."""

    def check(self, text, *arguments):
        path = self.write('accelerators.yaml', text)
        return self.run_tool('validate', '--accelerators', path, *arguments)

    def test_files_are_validated_for_their_services(self):
        result = self.check(BAD)
        self.assertEqual(2, result.status)
        self.assertIn('inventory.yaml: no problems.', result.out)
        self.assertIn('cyborg-agent does not start with it.', result.out)
        self.assertIn('It offers 4 of the 14 slots', result.out)

    def test_files_without_common_device_have_no_problem(self):
        denying = base.GPUS + (
            'not:\n  identification: {vendor_id: "10DE"}\n  allow: false\n'
        )
        self.assertEqual(0, self.check(denying).status)
        result = self.check(CRYPTO)
        self.assertEqual((0, ''), (result.status, result.err), result.out)
        self.assertIn('accelerators.yaml: no device in both.', result.out)

    def test_device_in_both_files_is_an_error_that_names_both_places(self):
        text = 'cards:\n  identification: {drc_index: "21010020"}\n'
        row = self.assert_finding(
            *(self.check(text, '-f', 'json'), 'error', 'cards'),
            'slot 21010020 at U78D2.001.EMU0001-P1-C3',
            f"paragraph 'gpus' (line 1) of {self.inventory}",
        )
        self.assertEqual(1, row['Line'])
        self.assertIn('accelerators.yaml', row['File'])
        self.assertIn('handover 21010020 --to', row['Hint'])
        self.assertIn('1 problem with devices in both.', self.check(text).out)

    def test_one_time_use_is_an_error_in_cyborgs_file_only(self):
        text = CRYPTO + '  one_time_use: true\n'
        result = self.check(text, '-f', 'json')
        self.assert_finding(result, 'error', 'crypto', 'one_time_use')
        self.assertEqual(0, super().check(text).status)

    def test_missing_file_is_an_error(self):
        path = self.directory / 'no.yaml'
        result = self.run_tool('validate', '--accelerators', path)
        self.assertEqual(2, result.status)
        self.assertIn('there is no such file', result.out)


class OptionsTest(base.ToolTestCase):
    def test_offline_excludes_system_xml(self):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            excluded = ('--offline', '--system-xml', 'x')
            result = self.run_tool('validate', *excluded)
        self.assertEqual(2, result.status)
        self.assertIn('not allowed with', err.getvalue())


class ExcerptTest(base.ToolTestCase):
    def excerpt(self, text, line, column):
        problem = inventory_file.Problem(line, column, '', 'what', '')
        finding = file_findings.Finding(file_findings.Severity.ERROR, problem)
        lines = list(validate.format_report([finding], 'f', text))
        return lines[1:-1]

    def test_marker_stands_under_the_column(self):
        for line, column, expected in (
            ('abc', 2, ' ^'),
            ('\tabc', 2, ' ^'),
            ('日本: x', 5, '      ^'),
            ('e\u0301: x', 5, '   ^'),
            ('a\x1b[1m', 2, ' ^'),
        ):
            with self.subTest(line=line):
                shown, marker = self.excerpt(line, 1, column)
                self.assertEqual(f'    | {expected}', marker)
                self.assertTrue(shown.isprintable())

    def test_long_line_is_cut_around_the_column(self):
        line = 'x' * 5000 + 'HERE' + 'y' * 5000
        shown, marker = self.excerpt(line, 1, 5001)
        self.assertLess(len(shown), 130)
        self.assertEqual('HERE', shown[marker.index('^') :][:4])

    def test_missing_line_gives_no_excerpt(self):
        self.assertEqual([], self.excerpt('a\n', 9, 1))
        self.assertEqual([], self.excerpt('', 0, 0))

    @given(st.text(), st.integers(0, 20), st.integers(0, 300))
    def test_excerpt_of_arbitrary_text_is_printable_and_short(
        self, text, line, column
    ):
        for shown in self.excerpt(text, line, column):
            self.assertTrue(shown.isprintable())
            self.assertLess(len(shown), 250)


def paragraph(name='gpus', allow=True, **identification):
    return policies.Paragraph(name, identification, allow=allow)


def find(earlier, later):
    """Say of each clash whether the later paragraph is the wider one."""
    policy = policies.Policy((paragraph(**earlier), paragraph(**later)))
    return [is_wider for *_, is_wider in file_findings.find_overlaps(policy)]


class ClashTest(unittest.TestCase):
    def test_paragraph_that_takes_all_of_the_other_is_found(self):
        narrow = {'vendor_id': '10DE', 'device_id': '1DB6'}
        for later, earlier, is_wider in (
            (narrow, narrow, False),
            (narrow, {'vendor_id': '10DE'}, False),
            ({'vendor_id': '10DE'}, narrow, True),
            (narrow, {'vendor_id': '10*'}, False),
            ({'vendor_id': '1?DE'}, {'vendor_id': '1?DE'}, False),
        ):
            with self.subTest(later=later, earlier=earlier):
                self.assertEqual([is_wider], find(earlier, later))

    def test_paragraphs_that_may_be_about_other_devices_are_left_out(self):
        for later, earlier in (
            ({'vendor_id': '10DE'}, {'vendor_id': '1014'}),
            ({'vendor_id': '10DE'}, {'device_id': '1DB6'}),
            ({'vendor_id': '10*'}, {'vendor_id': '1*'}),
            ({'vendor_id': '10DE'}, {}),
        ):
            with self.subTest(later=later, earlier=earlier):
                self.assertEqual([], find(earlier, later))

    def test_wildcard_for_anything_takes_what_does_not_name_its_key(self):
        gpus = {'vendor_id': '10DE'}
        for wide, is_found in (
            ({'drc_name': '*'}, True),
            ({'drc_name': '**', 'vendor_id': '1*'}, True),
            ({'class': '????'}, True),
            ({'drc_name': '*', 'vendor_id': '1014'}, False),
            ({'drc_name': '?'}, False),
            ({'class': '03*'}, False),
        ):
            with self.subTest(wide=wide):
                self.assertEqual([True] * is_found, find(gpus, wide))

    def test_denying_paragraph_clashes_with_none(self):
        gpus = paragraph(vendor_id='10DE')
        disks = paragraph('disks', vendor_id='144D')
        anything = paragraph('anything', drc_name='*')
        denied = paragraph('denied', allow=False, vendor_id='10DE')
        found = file_findings.find_overlaps(
            policies.Policy((gpus, disks, denied, anything))
        )
        self.assertEqual(
            [(anything, gpus, True), (anything, disks, True)], [*found]
        )
