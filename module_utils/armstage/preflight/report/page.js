(() => {
  "use strict";
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const nodes = all(".node");
  const tools = document.getElementById("tools");
  const search = document.getElementById("search");
  const count = document.getElementById("count");
  const nothing = document.getElementById("nothing");
  const fold = document.querySelector(".fold");
  const texts = new Map();
  let check = "";
  let searched = false; // whether a search opened the fold

  const textOf = (node) => {
    if (!texts.has(node)) texts.set(node, node.textContent.toLowerCase());
    return texts.get(node);
  };

  const filter = () => {
    const words = search ? search.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
    const hidden = tools ? all("[data-verdict][aria-pressed=false]", tools).map((each) => each.dataset.verdict) : [];
    let shown = 0;
    for (const node of nodes) {
      const wanted =
        !hidden.includes(node.dataset.verdict) &&
        (!check || node.dataset.wanting.split(" ").includes(check)) &&
        words.every((word) => textOf(node).includes(word));
      node.hidden = !wanted;
      shown += wanted;
    }
    const narrowed = words.length || hidden.length || check;
    if (fold) {
      const inFold = all(".node", fold).filter((node) => !node.hidden).length;
      fold.hidden = !inFold;
      fold.firstElementChild.textContent = `${inFold} nodes are ready`;
      if (words.length && inFold && !fold.open) searched = fold.open = true;
      else if (!words.length && searched) searched = fold.open = false;
    }
    if (nothing) nothing.hidden = shown > 0;
    if (count) count.textContent = narrowed ? `${shown} of ${nodes.length}` : "";
  };

  const reveal = (id) => {
    const target = document.getElementById(id);
    if (!target) return;
    for (let around = target; around; around = around.parentElement) if (around.tagName === "DETAILS") around.open = true;
    target.scrollIntoView({ block: "center" });
    target.focus({ preventScroll: true });
  };

  document.addEventListener("click", (event) => {
    const cell = event.target.closest(".node .cell");
    if (cell && document.getElementById(cell.dataset.go)) {
      event.preventDefault();
      reveal(cell.dataset.go);
      return;
    }
    const toggle = event.target.closest("#tools [data-verdict]");
    const column = event.target.closest("[data-check]");
    if (toggle) {
      toggle.setAttribute("aria-pressed", String(toggle.getAttribute("aria-pressed") !== "true"));
      filter();
    } else if (column) {
      check = column.getAttribute("aria-pressed") === "true" ? "" : column.dataset.check;
      for (const each of all("[data-check]")) each.setAttribute("aria-pressed", String(each.dataset.check === check && !!check));
      filter();
    } else if (event.target.id === "open") {
      const opening = event.target.textContent === "Open all";
      for (const node of nodes) if (!node.hidden) node.open = opening;
      event.target.textContent = opening ? "Close all" : "Open all";
    }
  });

  document.addEventListener("keydown", (event) => {
    const summary = event.target.closest(".node > summary");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (summary && step) {
      const rows = nodes.filter((node) => !node.hidden && node.checkVisibility());
      const next = rows[rows.indexOf(summary.parentElement) + step];
      if (next) {
        event.preventDefault();
        next.firstElementChild.focus();
      }
    } else if (event.key === "/" && search && event.target !== search) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && event.target === search) {
      search.value = "";
      filter();
    }
  });

  if (search) search.addEventListener("input", filter);
  if (tools) {
    tools.hidden = false;
    tools.addEventListener("submit", (event) => event.preventDefault());
  }

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = nodes.filter((node) => !node.open && node.dataset.verdict !== "pass" && !node.hidden);
    for (const node of opened) node.open = true;
  });
  addEventListener("afterprint", () => opened.forEach((node) => (node.open = false)));
  if (location.hash) reveal(location.hash.slice(1));
})();
