"""Writes tests/conformance/skills/cases.json: skills, good and broken, with the verdicts of skills-ref, the reference library of the
Agent Skills format. The test AgentSkills of src/bub/builtin compares ours with them.

    pip install skills-ref==0.1.1
    python3 tests/conformance/skills_in_skills_ref.py
"""

import json
import pathlib
import tempfile

import skills_ref

FILE = pathlib.Path(__file__).parent / "skills" / "cases.json"
LONG = "a-very-long-name-of-a-skill-that-is-still-allowed-since-it-has-64"


def skill(name, *lines, body="Do it.\n"):
    return "---\nname: " + name + "\n" + "".join(line + "\n" for line in lines) + "---\n" + body


D = "description: Does it."

# Directory, file, content, and, where ours differs on purpose, our verdict and the reason.
LENIENT = "a client ignores fields that it does not know"
CASES = [
    ("one", "SKILL.md", skill("one", D)),
    ("one", "skill.md", skill("one", D)),
    ("one", "Skill.md", skill("one", D)),
    ("one", "README.md", skill("one", D)),
    ("two-words", "SKILL.md", skill("two-words", D)),
    ("v2", "SKILL.md", skill("v2", D)),
    ("2", "SKILL.md", skill("2", D)),
    ("one", "SKILL.md", skill("'one'", D)),
    ("one", "SKILL.md", skill('"one"', 'description: "a: b"')),
    (LONG[:64], "SKILL.md", skill(LONG[:64], D)),
    (LONG, "SKILL.md", skill(LONG, D)),
    ("One", "SKILL.md", skill("One", D)),
    ("one", "SKILL.md", skill("One", D)),
    ("one", "SKILL.md", skill("other", D)),
    ("-one", "SKILL.md", skill("-one", D)),
    ("one-", "SKILL.md", skill("one-", D)),
    ("a--b", "SKILL.md", skill("a--b", D)),
    ("a_b", "SKILL.md", skill("a_b", D)),
    ("a b", "SKILL.md", skill("a b", D)),
    ("a.b", "SKILL.md", skill("a.b", D)),
    ("größe", "SKILL.md", skill("größe", D)),
    ("技能", "SKILL.md", skill("技能", D)),
    ("навык", "SKILL.md", skill("навык", D)),
    ("Größe", "SKILL.md", skill("Größe", D)),
    ("ÜBER", "SKILL.md", skill("ÜBER", D)),
    ("a–b", "SKILL.md", skill("a–b", D)),
    ("smile😀", "SKILL.md", skill("smile😀", D)),
    ("ü" * 64, "SKILL.md", skill("ü" * 64, D)),
    ("one", "SKILL.md", skill("one", "description: " + "x" * 1024)),
    ("one", "SKILL.md", skill("one", "description: " + "x" * 1025)),
    ("one", "SKILL.md", skill("one", "description: " + "ü" * 1024)),
    ("one", "SKILL.md", skill("one", "description: " + "ü" * 1025)),
    ("one", "SKILL.md", skill("one", "description:")),
    ("one", "SKILL.md", skill("one", "description: '  '")),
    ("one", "SKILL.md", skill("one")),
    ("one", "SKILL.md", skill("one", "description: |", "  Two", "  lines.")),
    ("one", "SKILL.md", skill("one", "description: >-", "  Two", "  lines.")),
    ("one", "SKILL.md", skill("one", "description:", "  - a list")),
    ("one", "SKILL.md", skill("one", "description:", "  a: map")),
    ("one", "SKILL.md", "---\n" + D + "\n---\nx\n"),
    ("one", "SKILL.md", skill("", D)),
    ("one", "SKILL.md", skill("one", D, "license: MIT", "compatibility: needs git")),
    ("one", "SKILL.md", skill("one", D, "compatibility: " + "x" * 500)),
    ("one", "SKILL.md", skill("one", D, "compatibility: " + "x" * 501)),
    ("one", "SKILL.md", skill("one", D, "compatibility:", "  - git")),
    ("one", "SKILL.md", skill("one", D, "allowed-tools: Bash(git:*) Read")),
    ("one", "SKILL.md", skill("one", D, "metadata:", "  author: me", "  version: '1.0'")),
    ("one", "SKILL.md", skill("one", D, "model: large"), True, LENIENT),
    ("one", "SKILL.md", skill("one", D, "version: 1"), True, LENIENT),
    ("one", "SKILL.md", skill("one", D, "description: Again.")),
    ("one", "SKILL.md", skill("one", D, "metadata: {author: me}"), True,
     "it is YAML; skills-ref reads a subset without flow style"),
    ("one", "SKILL.md", skill("one", "description: &x Does it."), True,
     "it is YAML; skills-ref reads a subset without anchors"),
    ("one", "SKILL.md", skill("one", "description: a: b")),
    ("one", "SKILL.md", skill("one", D, "  indented: wrongly")),
    ("one", "SKILL.md", skill("one", "\tdescription: Does it.")),
    ("one", "SKILL.md", "Do it.\n"),
    ("one", "SKILL.md", ""),
    ("one", "SKILL.md", "---\nname: one\n" + D + "\n"),
    ("one", "SKILL.md", "---\n---\nDo it.\n"),
    ("one", "SKILL.md", "---\n- name: one\n- " + D + "\n---\n"),
    ("one", "SKILL.md", "\n" + skill("one", D)),
    ("one", "SKILL.md", "\ufeff" + skill("one", D)),
    ("one", "SKILL.md", skill("one", D).replace("\n", "\r\n")),
    ("one", "SKILL.md", skill("one", D, body="")),
    ("one", "SKILL.md", skill("one", D, body="a\n---\nb\n")),
    ("one", "SKILL.md", skill("one", "description: a --- b")),
]


def verdict(directory, file, content):
    """Returns the errors of skills-ref."""
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / directory
        path.mkdir()
        (path / file).write_text(content, encoding="utf-8", newline="")
        return skills_ref.validate(path)


def main():
    cases = []
    for directory, file, content, *ours in CASES:
        errors = verdict(directory, file, content)
        case = {"directory": directory, "file": file, "content": content, "valid": not errors}
        if ours:
            case["loaded"], case["why"] = ours
        cases.append(case)
    head = {"by": f"skills-ref {skills_ref.__version__}", "cases": cases}
    FILE.write_text(json.dumps(head, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
