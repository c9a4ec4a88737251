// Search and filters of the placement tree; the tree works without this script.
for (const section of document.querySelectorAll(".placement")) {
  const form = section.querySelector(".find");
  const search = form.querySelector("input[type=search]");
  const filters = [...form.querySelectorAll("input[type=checkbox]")];
  const output = form.querySelector("output");
  const folds = [...section.querySelectorAll("details")];
  const most = 400; // with more open rows the page becomes slow
  let rows = null;
  let opened = [];
  const index = () =>
    [...section.querySelectorAll("li[data-placed]")].map((item) => ({
      item,
      placed: item.dataset.placed,
      text: `${item.closest("details").dataset.path}/${item.textContent}`.toLowerCase(),
    }));
  const apply = () => {
    rows ??= index();
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const selected = filters.filter((box) => box.checked).flatMap((box) => box.value.split(" "));
    const active = words.length > 0 || selected.length > 0;
    const holding = new Set();
    let found = 0;
    for (const row of rows) {
      const fits =
        (!selected.length || selected.includes(row.placed)) &&
        words.every((word) => row.text.includes(word));
      row.item.hidden = !fits;
      if (!fits) continue;
      found += 1;
      let fold = row.item.closest("details");
      while (fold && !holding.has(fold)) {
        holding.add(fold);
        fold = fold.parentElement.closest("details");
      }
    }
    for (const fold of opened) fold.open = false;
    opened = [];
    for (const fold of folds) {
      fold.hidden = !holding.has(fold) && fold !== folds[0];
      if (active && found <= most && holding.has(fold) && !fold.open) {
        fold.open = true;
        opened.push(fold);
      }
    }
    output.value = active ? `${found} of ${rows.length} operations` : "";
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
}
