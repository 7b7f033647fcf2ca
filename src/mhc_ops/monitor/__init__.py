"""What the hyper-connections of a model do while it trains: recorded, read back, drawn."""

from ..page.line_chart import Line as Line
from ..page.line_chart import line_picture as line_picture
from .page.build import render_page as render_page
from .recorder import Monitor as Monitor
from .run import Run as Run
from .run import StepRecord as StepRecord
from .run import read_run as read_run
