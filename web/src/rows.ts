// Order and selection of the rows of a table, apart from its elements.

export interface Cell {
  text: string;
  /** The number that the cell shows; null for a text, NaN for a number that was not recorded. */
  value: number | null;
}

export interface Row {
  cells: Cell[];
  /** All that a filter looks in, in lower case. */
  text: string;
}

export interface Filter {
  text: string;
  /** Value that a column must have, by its number. */
  chosen: Map<number, string>;
}

/** Indices of rows in the order of a column; what was not recorded comes last either way. */
export function ordered(rows: Row[], column: number, descending: boolean): number[] {
  const sign = descending ? -1 : 1;
  return rows.map((_, i) => i).sort((a, b) => {
    const [one, other] = [rows[a].cells[column], rows[b].cells[column]];
    if (one.value === null || other.value === null) {
      return sign * one.text.localeCompare(other.text, "en", { numeric: true }) || a - b;
    }
    if (isNaN(one.value) || isNaN(other.value)) {
      return Number(isNaN(one.value)) - Number(isNaN(other.value)) || a - b;
    }
    return sign * (one.value - other.value) || a - b;
  });
}

/** Whether a row has every word of a filter, and the chosen values. */
export function fits(row: Row, filter: Filter): boolean {
  for (const [column, value] of filter.chosen) {
    if (row.cells[column].text !== value) return false;
  }
  return filter.text.toLowerCase().split(/\s+/).every((word) => row.text.includes(word));
}

/** Distinct values of a column, in order of their first rows. */
export function valuesOf(rows: Row[], column: number): string[] {
  return [...new Set(rows.map((row) => row.cells[column].text))];
}

/** What a table shows, for people and screen readers. */
export function summary(shown: number, fitting: number, total: number): string {
  const number = (count: number) => count.toLocaleString("en");
  const rows = `${number(total)} ${total === 1 ? "row" : "rows"}`;
  if (shown === total) return rows;
  if (shown === fitting) return `${number(shown)} of ${rows}`;
  if (fitting === total) return `the first ${number(shown)} of ${rows}`;
  return `the first ${number(shown)} of ${number(fitting)} that fit, of ${rows}`;
}
