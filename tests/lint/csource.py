"""Just enough reading of C for the lint: text without comments and strings, functions with their length, prototypes."""
import re

IDENT = re.compile(r'[A-Za-z_]\w*')
# Words before a parenthesis that name no function.
NOT_A_NAME = {'if', 'for', 'while', 'switch', 'return', 'sizeof', '__attribute__', '_Atomic', '_Static_assert', '_Alignas',
              'alignof', 'defined', 'typeof', '__typeof__'}


def strip(text, strings=True):
    """The same text with comments (and the insides of strings) blanked; lines and columns stay where they are."""
    out, i, n = [], 0, len(text)
    while i < n:
        two = text[i:i + 2]
        if two == '//':
            end = text.find('\n', i)
            end = n if end < 0 else end
        elif two == '/*':
            end = text.find('*/', i + 2)
            end = n if end < 0 else end + 2
        elif text[i] in '"\'':
            end = i + 1
            while end < n and text[end] != text[i] and text[end] != '\n':
                end += 2 if text[end] == '\\' else 1
            end = min(end + 1, n)
            if not strings:
                out.append(text[i:end])
            else:
                out.append(text[i] + ' ' * (end - i - 2) + text[i] if end - i >= 2 else text[i:end])
            i = end
            continue
        else:
            out.append(text[i])
            i += 1
            continue
        out.append(''.join(c if c == '\n' else ' ' for c in text[i:end]))
        i = end
    return ''.join(out)


def without_preprocessor(code):
    """Blanks directives and their continued lines."""
    lines, inside = code.split('\n'), False
    for i, line in enumerate(lines):
        inside = inside or line.lstrip().startswith('#')
        goes_on = line.endswith('\\')
        if inside:
            lines[i] = ''
        inside = inside and goes_on
    return '\n'.join(lines)


def _name(statement):
    """The declared name: the identifier in front of the first parenthesis that can be a parameter list."""
    statement = re.sub(r'__attribute__\s*\(\(.*?\)\)', ' ', statement, flags=re.S)
    for m in re.finditer(r'([A-Za-z_]\w*)\s*\(', statement):
        if m.group(1) not in NOT_A_NAME:
            return m.group(1)
    return None


class Item:
    """A function definition or a prototype."""

    def __init__(self, name, statement, line, end_line, body):
        self.name, self.statement, self.line, self.end_line, self.body = name, statement, line, end_line, body

    @property
    def lines(self):
        return self.end_line - self.line + 1

    @property
    def static(self):
        return re.match(r'(?:\w+\s+)*?static\b', self.statement) is not None


def items(text):
    """Functions and prototypes at file scope, in order."""
    code = without_preprocessor(strip(text))
    out, depth, start, opened = [], 0, 0, None
    for i, c in enumerate(code):
        if c == '{':
            if depth == 0:
                head = code[start:i].strip()
                opened = head if '(' in head and '=' not in head and head.rstrip().endswith(')') else None
            depth += 1
        elif c == '}':
            depth -= 1
            if depth == 0 and opened is not None:
                out.append(_item(code, start, i, opened, True))
                start, opened = i + 1, None
        elif c == ';' and depth == 0:
            head = code[start:i].strip()
            if '(' in head and '{' not in head and '=' not in head and not head.startswith('typedef') and \
                    not head.startswith('_Static_assert'):
                out.append(_item(code, start, i, head, False))
            start = i + 1
    return [x for x in out if x.name and not x.name.isupper()]


def _item(code, start, end, statement, body):
    while code[start].isspace():
        start += 1
    return Item(_name(statement), statement, code.count('\n', 0, start) + 1, code.count('\n', 0, end) + 1, body)


def calls(text, names):
    """(line, name) of each call, by name, of a function in `names`; members (x->open(), x.open()) are other functions."""
    code = strip(text)
    pattern = re.compile(r'(?<![\w.>])(' + '|'.join(names) + r')\s*\(')
    return [(code.count('\n', 0, m.start()) + 1, m.group(1)) for m in pattern.finditer(code)]
