"""Judging results against published criteria and running published cases."""

from .cases import Case as Case
from .cases import CaseFileError as CaseFileError
from .cases import load_cases as load_cases
from .cases import parse_case as parse_case
from .report import Outcome as Outcome
from .report import Report as Report
from .runner import run_case as run_case
from .runner import run_cases as run_cases
from .runner import run_files as run_files
