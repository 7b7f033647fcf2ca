"""Judging what a device computed from a golden: how far off, against whom, and why perhaps.

judge_golden(golden, results) -> Judgement          read_results(path, golden) -> tensors
"""

from .judgement import Judgement as Judgement
from .judgement import OutputJudgement as OutputJudgement
from .judgement import judge_golden as judge_golden
from .page import render_judgement as render_judgement
from .results import read_results as read_results
