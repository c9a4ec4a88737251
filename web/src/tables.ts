// Sorts, filters and switches the tables of operations; without scripts, all of them are shown.

import { type Filter, fits, ordered, type Row, summary, valuesOf } from "./rows.ts";

/** Rows that a table shows at first. */
const FEW = 25;

/** The table in which a row of a kind is looked for first, by a part of its title. */
const FIRST: Record<string, string> = { line: "line", module: "scope", operation: "type" };

/** Where a row with one of some names is, and whether to show it. */
interface Question {
  names: string[];
  kind: string;
  shows?: boolean;
  isFound?: boolean;
}

/** One table, with a button in each of its headings. */
class Table {
  readonly title: string;
  readonly rows: Row[];
  private readonly heads: HTMLTableCellElement[];
  private readonly body: HTMLTableSectionElement;
  private readonly elements: HTMLTableRowElement[];
  private readonly more: HTMLElement;
  private order: number[];
  private showsAll = false;

  constructor(readonly part: HTMLElement, private readonly changed: () => void) {
    const table = part.querySelector("table")!;
    this.title = part.querySelector("h3")?.textContent ?? "";
    this.body = table.tBodies[0];
    this.elements = [...this.body.rows];
    this.heads = [...table.tHead!.rows[0].cells];
    const isNumber = this.heads.map((head) => head.classList.contains("n"));
    this.rows = this.elements.map((element) => rowOf(element, isNumber));
    this.order = this.rows.map((_, i) => i);
    this.heads.forEach((head, column) => this.makeSortable(head, column, isNumber[column]));
    this.more = part.querySelector<HTMLElement>(".more")!;
    this.more.querySelector("button")!.addEventListener("click", () => {
      this.showsAll = true;
      this.changed();
      // The button is gone, so that the keyboard continues at the table.
      part.querySelector<HTMLElement>(".scroll")?.focus({ preventScroll: true });
    });
  }

  /** Columns to filter by, with their values. */
  choices(): { column: number; title: string; values: string[] }[] {
    return this.heads
      .map((head, column) => ({ column, title: head.textContent ?? "", head }))
      .filter(({ head }) => "choice" in head.dataset)
      .map(({ column, title }) => ({ column, title, values: valuesOf(this.rows, column) }))
      .filter(({ values }) => values.length > 1);
  }

  /** Number of the row with one of some names, shortened or not; -1 for none. */
  rowOf(names: string[]): number {
    return this.elements.findIndex(({ cells: [name] }) =>
      names.includes(name.textContent ?? "") || (name.title !== "" && names.includes(name.title)));
  }

  /** Show all rows, and lead to one of them. */
  reveal(row: number): void {
    this.showsAll = true;
    this.changed();
    const element = this.elements[row];
    element.tabIndex = -1;
    element.focus({ preventScroll: true });
    element.scrollIntoView({ block: "center" });
  }

  /** Show what fits, and return what is shown in words. */
  apply(filter: Filter): string {
    let shown = 0;
    let fitting = 0;
    for (const i of this.order) {
      const isFitting = fits(this.rows[i], filter);
      fitting += Number(isFitting);
      const isShown = isFitting && (this.showsAll || shown < FEW);
      shown += Number(isShown);
      this.elements[i].hidden = !isShown;
    }
    this.more.hidden = shown === fitting;
    this.more.querySelector("button")!.textContent = `Show all ${fitting.toLocaleString("en")} rows`;
    return summary(shown, fitting, this.rows.length);
  }

  private makeSortable(head: HTMLTableCellElement, column: number, isNumber: boolean): void {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const descending = before ? before === "ascending" : isNumber;
      for (const other of this.heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      this.order = ordered(this.rows, column, descending);
      this.body.append(...this.order.map((i) => this.elements[i]));
      this.changed();
    });
  }
}

function rowOf(element: HTMLTableRowElement, isNumber: boolean[]): Row {
  const cells = [...element.cells].map((cell, column) => {
    const { value } = cell.dataset;
    const number = value ? Number(value) : NaN;
    return { text: cell.textContent ?? "", value: isNumber[column] ? number : null };
  });
  // Names may be shortened; the whole one is in the title. Numbers are not looked in.
  const texts = [...element.cells].filter((_, column) => !isNumber[column]);
  const text = texts.map((cell) => `${cell.textContent} ${cell.title}`).join(" ").toLowerCase();
  return { cells, text };
}

/** A section with several tables, of which one is shown. */
class Tables {
  private readonly tables: Table[];
  private readonly field: HTMLInputElement;
  private readonly choices: HTMLElement;
  private readonly output: HTMLOutputElement;
  private readonly chosen = new Map<number, string>();
  private current = 0;
  private readonly select: HTMLSelectElement;

  constructor(section: HTMLElement) {
    const form = section.querySelector<HTMLFormElement>(".find")!;
    this.field = form.querySelector("input")!;
    this.choices = form.querySelector<HTMLElement>(".choices")!;
    this.output = form.querySelector("output")!;
    const parts = [...section.querySelectorAll<HTMLElement>(".one")];
    this.tables = parts.map((part) => new Table(part, () => this.apply()));
    form.addEventListener("submit", (event) => event.preventDefault());
    this.field.addEventListener("input", () => this.apply());
    this.select = form.querySelector<HTMLSelectElement>(".which select")!;
    this.addSwitch(form.querySelector<HTMLElement>(".which")!);
    section.classList.add("live");
    form.hidden = false;
    this.show(0);
  }

  private addSwitch(label: HTMLElement): void {
    this.select.append(...this.tables.map(({ title }, i) => new Option(title, String(i))));
    this.select.addEventListener("change", () => this.show(Number(this.select.value)));
    label.hidden = this.tables.length < 2;
  }

  private show(current: number): void {
    this.current = current;
    this.tables.forEach((table, i) => (table.part.hidden = i !== current));
    this.chosen.clear();
    this.choices.replaceChildren(...this.tables[current].choices().map(
      ({ column, title, values }) => this.choice(column, title, values)));
    this.apply();
  }

  private choice(column: number, title: string, values: string[]): HTMLElement {
    const select = document.createElement("select");
    select.append(new Option("all", "0"));
    // By number, because any text may be a value.
    select.append(...values.map((value, i) => new Option(value || "–", String(i + 1))));
    select.addEventListener("change", () => {
      const place = Number(select.value);
      if (place) this.chosen.set(column, values[place - 1]);
      else this.chosen.delete(column);
      this.apply();
    });
    const label = document.createElement("label");
    label.append(`${title} `, select);
    return label;
  }

  /** Whether a table has a row with one of some names; shows it if asked to. */
  find({ names, kind, shows }: Question): boolean {
    const order = [...this.tables.keys()].sort((a, b) => this.rank(a, kind) - this.rank(b, kind));
    const table = order.find((i) => this.tables[i].rowOf(names) >= 0);
    if (table === undefined || !shows) return table !== undefined;
    const fold = this.tables[table].part.closest("details");
    if (fold) fold.open = true;
    this.field.value = "";
    this.select.value = String(table);
    this.show(table);
    this.tables[table].reveal(this.tables[table].rowOf(names));
    return true;
  }

  /** Tables in which a name of this kind is looked for first have a lower number. */
  private rank(table: number, kind: string): number {
    const first = FIRST[kind];
    return first !== undefined && this.tables[table].title.includes(first) ? -1 : table;
  }

  private apply(): void {
    const filter = { text: this.field.value, chosen: this.chosen };
    this.output.value = this.tables[this.current].apply(filter);
  }
}

const all = [...document.querySelectorAll<HTMLElement>(".tables")].map((one) => new Tables(one));
document.addEventListener("stepwhy-row", (event) => {
  const question = (event as CustomEvent<Question>).detail;
  question.isFound = all.some((tables) => tables.find(question));
});
