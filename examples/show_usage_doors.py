"""Print what each door makes of each recorded exchange of the usage corpus: `make usage-doors`."""

from tests.detectors.formats.usage.doors import DOORS, corpus, doors_of, expected, read


def main() -> None:
    """Print a row per exchange: `=` where a door reads it right, `-` where it can't come."""
    print(f"{'exchange':38}" + "".join(f"{door:10}" for door in DOORS))
    wrong = dict.fromkeys(DOORS, 0)
    for case in corpus():
        cells = []
        for door in DOORS:
            found = read(case, door) if door in doors_of(case) else None
            is_right = found is None or found == expected(case)
            wrong[door] += not is_right
            words = "REFUSED" if isinstance(found, str) else "WRONG"
            cells.append("-" if found is None else "=" if is_right else words)
        print(f"{case['name']:38}" + "".join(f"{cell:10}" for cell in cells))
    print(f"{'wrong':38}" + "".join(f"{count:<10}" for count in wrong.values()))


if __name__ == "__main__":
    main()
