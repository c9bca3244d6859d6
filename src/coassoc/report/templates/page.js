"use strict";
(() => {
  const tables = JSON.parse(document.getElementById("tables").textContent);
  const matrices = JSON.parse(document.getElementById("matrices").textContent);

  // light and dark
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // tooltips, by pointer and by keyboard
  const tip = document.getElementById("tip");
  const show = (element) => {
    tip.textContent = element.dataset.tip;
    tip.hidden = false;
    const box = element.getBoundingClientRect();
    const x = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = x + "px";
    tip.style.top = (above > 4 ? above : box.bottom + 8) + "px";
  };
  for (const element of document.querySelectorAll("[data-tip]")) {
    element.setAttribute("aria-label", element.dataset.tip);
    element.setAttribute("role", "img");
    element.addEventListener("pointerenter", () => show(element));
    element.addEventListener("focus", () => show(element));
    for (const event of ["pointerleave", "blur"]) element.addEventListener(event, () => { tip.hidden = true; });
  }
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  // one stop for the tab key per picture; arrows move inside it
  for (const svg of document.querySelectorAll("figure svg")) {
    const marks = [...svg.querySelectorAll("[data-tip]")];
    marks.forEach((mark, i) => { mark.tabIndex = i ? -1 : 0; });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const at = marks.indexOf(document.activeElement);
      if (!step || at < 0) return;
      event.preventDefault();
      const next = marks[Math.min(marks.length - 1, Math.max(0, at + step))];
      marks[at].tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }

  // sorting
  const key = (cell) => {
    const text = cell.dataset.v ?? cell.textContent.trim();
    const number = Number(text.replace("−", "-"));
    return text === "" || text === "–" ? null : Number.isNaN(number) ? text : number;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    table.querySelectorAll("th").forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const falling = head.getAttribute("aria-sort") === "ascending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => [key(row.cells[column]), row]);
        rows.sort(([a], [b]) => {
          if (a === null || b === null) return (a === null) - (b === null);
          const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
          return falling ? -order : order;
        });
        body.replaceChildren(...rows.map(([, row]) => row));
      });
    });
  }

  // the numbers behind the pictures
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  for (const button of document.querySelectorAll("button.save")) {
    const name = button.dataset.table;
    button.setAttribute("aria-label", "Download the numbers of " + name + " as CSV");
    button.addEventListener("click", () => {
      const { columns, rows } = tables[name];
      const text = [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      link.download = name + ".csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      button.dataset.saved = String(text.length);
    });
  }

  // heat maps
  for (const frame of document.querySelectorAll(".frame")) {
    const name = frame.dataset.matrix;
    const { labels, borders, n } = matrices[name];
    const skip = tables[name].columns.length - n;
    const values = tables[name].rows;
    const lines = frame.querySelector(".borders");
    lines.setAttribute("viewBox", "0 0 " + n + " " + n);
    for (const at of borders.length < 60 ? borders : []) {
      for (const [x1, y1, x2, y2] of [[at, 0, at, n], [0, at, n, at]]) {
        const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
        for (const [k, v] of Object.entries({ x1, y1, x2, y2 })) line.setAttribute(k, v);
        lines.append(line);
      }
    }
    const cursor = frame.querySelector(".cursor");
    const readout = frame.parentElement.querySelector(".readout");
    let row = 0, column = 0;
    const read = () => {
      cursor.hidden = false;
      cursor.style.cssText = `left:${100 * column / n}%;top:${100 * row / n}%;width:${100 / n}%;height:${100 / n}%`;
      const value = values[row][column + skip];
      readout.textContent = `${labels[row]} × ${labels[column]}: ${value === null ? "–" : value.toFixed(3)}`;
    };
    frame.addEventListener("pointermove", (event) => {
      const box = frame.getBoundingClientRect();
      column = Math.min(n - 1, Math.max(0, Math.floor(n * (event.clientX - box.left) / box.width)));
      row = Math.min(n - 1, Math.max(0, Math.floor(n * (event.clientY - box.top) / box.height)));
      read();
    });
    frame.addEventListener("pointerleave", () => { if (document.activeElement !== frame) cursor.hidden = true; });
    frame.addEventListener("focus", read);
    frame.addEventListener("blur", () => { cursor.hidden = true; });
    frame.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      const far = event.shiftKey ? Math.max(1, Math.round(n / 10)) : 1;
      row = Math.min(n - 1, Math.max(0, row + far * step[0]));
      column = Math.min(n - 1, Math.max(0, column + far * step[1]));
      read();
    });
  }

  // where in the page we are
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((a) => a.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  document.querySelectorAll("main section").forEach((section) => seen.observe(section));
})();
