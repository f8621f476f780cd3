"""Messages of toolchains, as they were seen, and the line of each that says why."""

from __future__ import annotations

import pytest

from hone_runtime.contract.causes import cut_reason, find_cause, strip_styles
from hone_runtime.text import clean_text

EXPORTER = (
    "Failed to export the model with torch.export. \x1b[96mThis is step 1/3\x1b[0m of exporting the model to ONNX. "
    "Next steps:\n- Modify the model code for `torch.export.export` to succeed.\n\n## Exception summary\n\n"
    "<class 'torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode'>: Could not guard on data-dependent "
    "expression Eq(u0, 1)\n\nconsider using guard_or_false.\n\n(Refer to the full stack trace above.)"
)
CONSTRAINTS = (
    'Constraints violated (b)! For more information, run with TORCH_LOGS="+dynamic".\n'
    "  - Not all values of b = L['x'].size()[0] satisfy the generated guard b % 2 == 0.\n  - Another."
)

FRONTEND = (
    "FrontEnd API failed with OpConversionFailure:\nModel wasn't fully converted. Failed operations detailed log:\n"
    "-- Conv-16 with a message:\nThe rank has to be known"
)


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("", ""),
        ("one\ntwo", "one"),
        ("missing keys:\n  one,\n  two", "missing keys: one, two"),
        ("Check 'false' failed at report.cpp:151:\nIt failed:\n- the cause", "It failed: - the cause"),
        (EXPORTER, "GuardOnDataDependentSymNode: Could not guard on data-dependent expression Eq(u0, 1)"),
        (
            CONSTRAINTS,
            "Constraints violated (b)! Not all values of b = L['x'].size()[0] satisfy the generated guard b % 2 == 0.",
        ),
        ("\x1b[1m\x1b[31mError\x1b[0m in \x1b]8;;file:///a\x1b\\a.py\x1b]8;;\x1b\\\nmore", "Error in a.py"),
        (
            "[ONNXRuntimeError] : 1 : FAIL : Load model from /tmp/x/source.onnx failed:Node (a) Op (Transpose) Invalid",
            "Node (a) Op (Transpose) Invalid",
        ),
        ("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions", "Got invalid dimensions"),
        (
            FRONTEND,
            "Conv-16 with a message: The rank has to be known",
        ),
        ("For more information, see the manual", "For more information, see the manual"),
        ("## Exception summary", "## Exception summary"),
    ],
)
def test_the_line_that_says_why(message, cause):
    assert find_cause(message) == cause


def test_a_reason_keeps_its_own_words_before_the_cause():
    assert cut_reason(f"torch.export cannot keep the sizes dynamic:\n{CONSTRAINTS}") == (
        "torch.export cannot keep the sizes dynamic: Constraints violated (b)! Not all values of b = L['x'].size()[0] "
        "satisfy the generated guard b % 2 == 0."
    )
    assert cut_reason("NaN in the weights") == "NaN in the weights"
    assert cut_reason("it cannot be converted:") == "it cannot be converted:"


def test_nothing_of_a_style_is_left():
    text = "\x1b[38;5;196mred\x1b[0m \x1b[2Kline\x1b]0;title\x07 end"
    assert strip_styles(text) == "red line end"
    assert clean_text(strip_styles(text)) == "red line end"
