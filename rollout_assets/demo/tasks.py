"""The tasks of the demo: small problems with a right answer and a typical mistake, and how each is graded."""

from __future__ import annotations

from typing import NamedTuple


class MathTask(NamedTuple):
    """A problem with one final answer; a rollout is graded 1 or 0.

    `working` leads to `answer`, `slip` to `mistake`.
    """

    task_id: str
    prompt: str
    working: str
    answer: str
    slip: str
    mistake: str


class Check(NamedTuple):
    """One test of a coding task; `got` is what the flawed solution returns, `None` where it passes."""

    call: str
    expected: str
    got: str | None = None


class CodeTask(NamedTuple):
    """A function to write; a rollout is graded by the share of the checks that pass."""

    task_id: str
    prompt: str
    solution: str
    flawed: str
    checks: tuple[Check, ...]


MATH_TASKS = (
    MathTask(
        "primes-below-50", "What is the sum of all primes less than 50?",
        "2+3+5+7+11+13+17+19+23+29+31+37+41+43+47", "328", "3+5+7+11+13+17+19+23+29+31+37+41+43+47", "326",
    ),
    MathTask(
        "trailing-zeros", "How many zeros end the decimal form of 100!?",
        "Factors of 5: floor(100/5) + floor(100/25) = 20 + 4", "24", "Factors of 5: floor(100/5)", "20",
    ),
    MathTask(
        "clock-angle", "What angle, in degrees and at most 180, do the hands of a clock form at 3:40?",
        "Minute hand 240, hour hand 90 + 20 = 110", "130", "Minute hand 240, hour hand 90", "150",
    ),
    MathTask(
        "dice-nine", "Two fair dice are rolled. What is the probability that they sum to 9?",
        "(3,6), (4,5), (5,4), (6,3): 4/36", "1/9", "(3,6), (4,5): 2/36", "1/18",
    ),
    MathTask(
        "last-digit", "What is the last digit of 7^222?",
        "7, 9, 3, 1 repeats and 222 = 2 mod 4", "9", "7, 9, 3, 1 repeats and 222 = 1 mod 4", "7",
    ),
    MathTask(
        "rectangle-diagonal", "A rectangle has perimeter 34 and area 60. How long is its diagonal?",
        "d^2 = 17^2 - 2*60 = 169", "13", "The diagonal is half of the perimeter", "17",
    ),
    MathTask(
        "trains-meet",
        "Trains start 300 km apart and approach each other at 70 km/h and 80 km/h. After how many hours do they meet?",
        "300 / (70 + 80)", "2", "300 / 75", "4",
    ),
    MathTask(
        "arithmetic-sum", "Compute 3 + 7 + 11 + ... + 99.",
        "(99-3)/4 + 1 = 25 terms of mean 51", "1275", "(99-3)/4 = 24 terms of mean 51", "1224",
    ),
    MathTask(
        "divisors-360", "How many positive divisors does 360 have?",
        "360 = 2^3 * 3^2 * 5, so 4*3*2", "24", "360 = 2^3 * 3^2 * 5, so 3*2*1", "6",
    ),
    MathTask(
        "banana", "How many distinct arrangements do the letters of BANANA have?",
        "6!/(3! 2!) = 720/12", "60", "6!/3! = 720/6", "120",
    ),
    MathTask(
        "handshakes", "Twelve people each shake hands once with everyone else. How many handshakes is that?",
        "12*11/2", "66", "12*11", "132",
    ),
    MathTask(
        "log-equation", "Solve log_2(x) + log_2(x-2) = 3 over the reals.",
        "x^2 - 2x - 8 = 0 gives 4 and -2; x > 2 leaves", "4", "x^2 - 2x - 8 = 0 gives", "4, -2",
    ),
    MathTask(
        "sum-of-squares", "What is the sum of the squares of the roots of x^2 - 5x + 3?",
        "(r+s)^2 - 2rs = 25 - 6", "19", "(r+s)^2 = 5^2", "25",
    ),
    MathTask(
        "inscribed-square", "A square is inscribed in a circle of radius 5. What is its area?",
        "The diagonal is 10, so 10^2/2", "50", "The side is 5, so 5^2", "25",
    ),
    MathTask(
        "geometric-tail", "Compute the sum of 3/4^n over all n >= 1.",
        "(3/4) / (1 - 1/4)", "1", "1 / (1 - 1/4)", "4/3",
    ),
    MathTask(
        "inverse-mod-26", "What is the inverse of 7 modulo 26, between 0 and 25?",
        "7*15 = 105 = 4*26 + 1", "15", "7*11 = 77 = 3*26 - 1", "11",
    ),
    MathTask(
        "rope-gap",
        "A rope fits tightly around the equator. It is made one metre longer. How high, in whole cm, does it float?",
        "100/(2*pi) = 15.9", "16", "100 cm over 40,000 km is nothing", "0",
    ),
    MathTask(
        "two-heads", "What is the expected number of flips of a fair coin until two heads come in a row?",
        "E = (E+1)/2 + (E+2)/4 + 2/4", "6", "Two heads have probability 1/4, so 1/(1/4)", "4",
    ),
)  # fmt: skip

CODE_TASKS = (
    CodeTask(
        "rotate-list",
        "Write rotate(xs, k): the list xs rotated right by k places. k may be negative or exceed the length.",
        "def rotate(xs, k):\n    k %= len(xs) or 1\n    return xs[len(xs) - k :] + xs[: len(xs) - k]",
        "def rotate(xs, k):\n    return xs[-k:] + xs[:-k]",
        (
            Check("rotate([1, 2, 3], 1)", "[3, 1, 2]"),
            Check("rotate([1, 2, 3], -1)", "[2, 3, 1]"),
            Check("rotate([1, 2, 3], 5)", "[2, 3, 1]", "[1, 2, 3]"),
            Check("rotate([], 2)", "[]"),
        ),
    ),
    CodeTask(
        "roman-numerals",
        "Write roman(n): the Roman numeral of n, for 1 to 3999.",
        "def roman(n):\n    text = ''\n"
        "    for value, sign in zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),\n"
        "                           'M CM D CD C XC L XL X IX V IV I'.split()):\n"
        "        text += sign * (n // value)\n        n %= value\n    return text",
        "def roman(n):\n    text = ''\n    for value, sign in zip((1000, 500, 100, 50, 10, 5, 1), 'MDCLXVI'):\n"
        "        text += sign * (n // value)\n        n %= value\n    return text",
        (
            Check("roman(3)", "'III'"),
            Check("roman(1666)", "'MDCLXVI'"),
            Check("roman(4)", "'IV'", "'IIII'"),
            Check("roman(1994)", "'MCMXCIV'", "'MDCCCCLXXXXIIII'"),
        ),
    ),
    CodeTask(
        "balanced-brackets",
        "Write balanced(s): whether the brackets ()[]{} in s are nested properly. s has no other characters.",
        "def balanced(s):\n    open_ = []\n    for c in s:\n        if c in '([{':\n"
        "            open_.append(')]}'['([{'.index(c)])\n"
        "        elif not open_ or open_.pop() != c:\n            return False\n    return not open_",
        "def balanced(s):\n    return all(s.count(a) == s.count(b) for a, b in ('()', '[]', '{}'))",
        (
            Check("balanced('([]{})')", "True"),
            Check("balanced('((')", "False"),
            Check("balanced('([)]')", "False", "True"),
            Check("balanced('}{')", "False", "True"),
        ),
    ),
    CodeTask(
        "merge-intervals",
        "Write merge(xs): the list of closed intervals [a, b], sorted, with overlapping ones merged.",
        "def merge(xs):\n    out = []\n    for a, b in sorted(xs):\n        if out and a <= out[-1][1]:\n"
        "            out[-1][1] = max(b, out[-1][1])\n        else:\n            out.append([a, b])\n    return out",
        "def merge(xs):\n    out = []\n    for a, b in xs:\n        if out and a <= out[-1][1]:\n"
        "            out[-1][1] = b\n        else:\n            out.append([a, b])\n    return out",
        (
            Check("merge([[1, 3], [2, 6]])", "[[1, 6]]"),
            Check("merge([])", "[]"),
            Check("merge([[1, 2], [5, 6]])", "[[1, 2], [5, 6]]"),
            Check("merge([[1, 9], [2, 3]])", "[[1, 9]]", "[[1, 3]]"),
        ),
    ),
    CodeTask(
        "word-count",
        "Write count_words(text): a dict of how often each word occurs, in lower case and without punctuation.",
        "import re\nfrom collections import Counter\n\ndef count_words(text):\n"
        '    return Counter(re.findall(r"[a-z\']+", text.lower()))',
        "from collections import Counter\n\ndef count_words(text):\n    return Counter(text.split())",
        (
            Check("dict(count_words('a b a'))", "{'a': 2, 'b': 1}"),
            Check("dict(count_words(''))", "{}"),
            Check("dict(count_words('Hi hi'))", "{'hi': 2}", "{'Hi': 1, 'hi': 1}"),
            Check("dict(count_words('no, no!'))", "{'no': 2}", "{'no,': 1, 'no!': 1}"),
        ),
    ),
    CodeTask(
        "spiral-order",
        "Write spiral(m): the entries of the matrix m, a list of rows, clockwise from the top left inwards.",
        "def spiral(m):\n    out = []\n    while m:\n        out += m[0]\n"
        "        m = list(zip(*m[1:]))[::-1]\n    return out",
        "def spiral(m):\n    out = []\n    while m:\n        out += m[0]\n"
        "        m = [row[::-1] for row in zip(*m[1:])]\n    return out",
        (
            Check("spiral([[1, 2, 3]])", "[1, 2, 3]"),
            Check("spiral([[1, 2], [3, 4]])", "[1, 2, 4, 3]", "[1, 2, 3, 4]"),
            Check("spiral([[1, 2, 3], [4, 5, 6]])", "[1, 2, 3, 6, 5, 4]", "[1, 2, 3, 4, 6, 5]"),
            Check("spiral([[1], [2], [3], [4]])", "[1, 2, 3, 4]", "[1, 4, 3, 2]"),
        ),
    ),
)

TASKS: tuple[MathTask | CodeTask, ...] = MATH_TASKS + CODE_TASKS
