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

"""Image metadata of Glance."""

import dataclasses
import unittest

from nova_powervm import exception
from nova_powervm.lpar import image


class CheckImageTest(unittest.TestCase):
    def test_check_accepts_raw_and_qcow2(self):
        for name in ('raw', 'qcow2'):
            self.assertEqual(7, image.Image('it', name, 7).check())

    def test_check_refuses_other_formats_by_name(self):
        for name in ('iso', 'vmdk', 'aki', 'unknown', 'RAW', ''):
            with self.assertRaises(exception.ImageRefused) as caught:
                image.Image('it', name, 1).check()
            self.assertIn(f'format is {name}.', str(caught.exception))

    def test_check_refuses_unknown_and_zero_size(self):
        for size, words in (
            (None, 'does not report its size'),
            (0, 'is empty'),
        ):
            with self.assertRaises(exception.ImageRefused) as caught:
                image.Image('it', 'raw', size).check()
            self.assertIn(words, str(caught.exception))

    def test_check_refuses_format_that_disk_driver_does_not_support(self):
        with self.assertRaises(exception.ImageRefused) as caught:
            image.Image('it', 'qcow2', 1).check(('raw',))
        self.assertIn('Convert it to raw and', str(caught.exception))


class FingerprintTest(unittest.TestCase):
    ONE = image.Image('one', 'raw', 7, 'sha512', 'AB' * 64)

    def test_images_with_equal_hashes_share_fingerprint(self):
        other = dataclasses.replace(self.ONE, id='other', hash_value='ab' * 64)
        self.assertEqual(self.ONE.fingerprint, other.fingerprint)

    def test_certificates_leave_strong_hash_alone_only(self):
        for algorithm, is_shared in (
            ('sha512', True),
            ('sha256', True),
            ('md5', False),
            ('', False),
        ):
            first = dataclasses.replace(self.ONE, hash_algorithm=algorithm)
            trusting = dataclasses.replace(first, certificates=('a', 'b'))
            same = dataclasses.replace(first, certificates=('b', 'a'))
            with self.subTest(algorithm):
                self.assertEqual(
                    is_shared, first.fingerprint == trusting.fingerprint
                )
                self.assertEqual(same.fingerprint, trusting.fingerprint)

    def test_images_without_hash_differ_by_their_ids(self):
        first = dataclasses.replace(self.ONE, hash_algorithm='', hash_value='')
        other = dataclasses.replace(first, id='other')
        self.assertNotEqual(first.fingerprint, other.fingerprint)
        self.assertEqual(
            first.fingerprint, dataclasses.replace(first).fingerprint
        )

    def test_fingerprint_depends_on_all_that_makes_the_bytes(self):
        fingerprints = [self.ONE.fingerprint]
        for changes in (
            {'hash_value': 'cd' * 64},
            {'hash_algorithm': 'sha256'},
            {'disk_format': 'qcow2'},
            {'size': 8},
        ):
            changed = dataclasses.replace(self.ONE, **changes)
            fingerprints.append(changed.fingerprint)
        self.assertEqual(len(fingerprints), len(set(fingerprints)))

    def test_image_cannot_pass_for_another_by_its_id(self):
        forged = image.Image(self.ONE.hash_value.lower(), 'raw', 7)
        self.assertNotEqual(self.ONE.fingerprint, forged.fingerprint)
