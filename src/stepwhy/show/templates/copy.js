"use strict";
// Copy buttons; the page can be read without this script.
for (const code of document.querySelectorAll("pre[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
  });
  code.parentNode.append(button);
}

// What a link of the contents leads to is open when it is reached.
for (const link of document.querySelectorAll(".contents a")) {
  link.addEventListener("click", () => {
    const fold = document.querySelector(link.hash).closest("summary")?.parentElement;
    if (fold) fold.open = true;
  });
}
