// The program as a tree: lines, modules, operations, calls and kernels, with own and total times.

export type Kind = "line" | "module" | "operation" | "call" | "kernel" | "rest" | "others";
export type Measure = "host" | "device";

/** The columns of the page, as `stepwhy.show.html.call_tree` writes them; parents come first. */
export interface TreeData {
  /** What is shown, and the whole name where it is another one. */
  names: [string, string?][];
  parent: number[];
  kind: Kind[];
  /** What the timeline draws it as; -1 for what it draws as several things. */
  category: number[];
  count: number[];
  /** Own times, ns. */
  host: number[];
  device: number[];
}

export interface Node {
  name: string;
  /** The name in the timeline and the tables. */
  whole: string;
  kind: Kind;
  /** -1 at the top. */
  parent: number;
  depth: number;
  category: number;
  count: number;
  own: Record<Measure, number>;
  total: Record<Measure, number>;
}

/** One frame of the flame graph: where it begins and how wide it is, as shares of the whole. */
export interface Frame {
  node: number;
  depth: number;
  left: number;
  width: number;
}

export class Tree {
  readonly nodes: Node[];
  readonly whole: Record<Measure, number> = { host: 0, device: 0 };
  private readonly below: number[][];
  private readonly roots: number[] = [];
  private readonly most = new Map<Measure, number[]>();

  constructor(data: TreeData) {
    this.nodes = data.names.map(([name, whole], i) => ({
      name, whole: whole ?? name, kind: data.kind[i], parent: data.parent[i], depth: 0,
      category: data.category[i], count: data.count[i],
      own: { host: data.host[i], device: data.device[i] },
      total: { host: data.host[i], device: data.device[i] },
    }));
    this.below = this.nodes.map(() => []);
    this.nodes.forEach((node, i) => {
      node.depth = node.parent < 0 ? 0 : this.nodes[node.parent].depth + 1;
      (node.parent < 0 ? this.roots : this.below[node.parent]).push(i);
    });
    for (let i = this.nodes.length - 1; i >= 0; i--) this.addUp(this.nodes[i]);
  }

  private addUp({ parent, total }: Node): void {
    const into = parent < 0 ? this.whole : this.nodes[parent].total;
    into.host += total.host;
    into.device += total.device;
  }

  /** Children with time, heaviest first; -1 for what is at the top. */
  children(node: number, measure: Measure): number[] {
    const all = node < 0 ? this.roots : this.below[node];
    const total = (i: number) => this.nodes[i].total[measure];
    return all.filter((i) => total(i) > 0).sort((a, b) => total(b) - total(a) || a - b);
  }

  totalOf(node: number, measure: Measure): number {
    return node < 0 ? this.whole[measure] : this.nodes[node].total[measure];
  }

  /** The nodes from the top down to one, itself included. */
  path(node: number): number[] {
    const found = [];
    for (let i = node; i >= 0; i = this.nodes[i].parent) found.unshift(i);
    return found;
  }

  /** The category in which each node, with all below it, has most time; -1 for none. */
  categories(measure: Measure): number[] {
    const known = this.most.get(measure) ?? this.mostOf(measure);
    this.most.set(measure, known);
    return known;
  }

  private mostOf(measure: Measure): number[] {
    const sums = this.nodes.map(() => new Map<number, number>());
    const found = this.nodes.map(() => -1);
    for (let i = this.nodes.length - 1; i >= 0; i--) {
      const { category, own, parent } = this.nodes[i];
      if (category >= 0) add(sums[i], category, own[measure]);
      found[i] = largest(sums[i]) ?? category;
      if (parent >= 0) sums[i].forEach((time, one) => add(sums[parent], one, time));
    }
    return found;
  }

  /**
   * The frames that are at least so wide when a node fills the width, heaviest first from the left.
   * Those around the node have the whole width, too.
   */
  frames(top: number, measure: Measure, least: number): Frame[] {
    const around = this.path(top).map((node, depth) => ({ node, depth, left: 0, width: 1 }));
    const whole = this.totalOf(top, measure);
    const found: Frame[] = [...around];
    const todo = whole > 0 ? [{ node: top, left: 0 }] : [];
    while (todo.length) {
      const { node, left } = todo.pop()!;
      let from = left;
      for (const child of this.children(node, measure)) {
        const width = this.nodes[child].total[measure] / whole;
        if (width < least) break;
        found.push({ node: child, depth: this.nodes[child].depth, left: from, width });
        todo.push({ node: child, left: from });
        from += width;
      }
    }
    return found;
  }

  /** Nodes whose name contains a text, whatever its case, and their share, each time once. */
  search(text: string, measure: Measure): { nodes: Set<number>; share: number } {
    const wanted = text.trim().toLowerCase();
    const nodes = new Set<number>();
    const inside = new Set<number>();
    let time = 0;
    this.nodes.forEach(({ name, whole, parent, total }, i) => {
      if (inside.has(parent)) inside.add(i);
      if (!wanted || !`${name} ${whole}`.toLowerCase().includes(wanted)) return;
      if (total[measure] <= 0) return;
      nodes.add(i);
      if (!inside.has(i)) time += total[measure];
      inside.add(i);
    });
    return { nodes, share: time / Math.max(this.whole[measure], 1) };
  }

  /** The line that a node is in, '' for none. */
  lineOf(node: number): string {
    const lines = this.path(node).filter((i) => this.nodes[i].kind === "line");
    return lines.length ? this.nodes[lines[lines.length - 1]].whole : "";
  }

  /** The path of a module, as the table by name scope has it. */
  scopeOf(node: number): string {
    return this.path(node).filter((i) => this.nodes[i].kind === "module")
      .map((i) => this.nodes[i].whole).join("/");
  }
}

function add(sums: Map<number, number>, key: number, time: number): void {
  if (time > 0) sums.set(key, (sums.get(key) ?? 0) + time);
}

function largest(sums: Map<number, number>): number | undefined {
  return [...sums].sort((a, b) => b[1] - a[1])[0]?.[0];
}
