"use strict";
// Language, theme, search, folds, and a table of contents that follows. Nothing here asks anything of a network.
(() => {
  const root = document.documentElement;
  const catalogue = JSON.parse(document.getElementById("catalogue").textContent);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const keep = {
    get(key) { try { return localStorage.getItem("bayesgrad-" + key); } catch { return null; } },
    set(key, value) { try { localStorage.setItem("bayesgrad-" + key, value); } catch { /* private window */ } },
  };

  // ---- language
  const say = (id, values, language) =>
    catalogue[id][language].replace(/\{([a-z_]+)\}/g, (whole, name) => (name in values ? values[name] : whole));
  const speak = (language) => {
    for (const element of all("[data-m]")) {
      const values = element.dataset.v ? JSON.parse(element.dataset.v) : {};
      element.textContent = say(element.dataset.m, values, language);
      if (language === "en") element.removeAttribute("lang");
      else element.setAttribute("lang", language);
    }
    for (const element of all("[data-m-label]")) {
      element.setAttribute("aria-label", say(element.dataset.mLabel, {}, language));
    }
    root.dataset.language = language;
  };
  const languages = document.getElementById("language");
  languages.addEventListener("change", () => { speak(languages.value); keep.set("language", languages.value); });
  const asked = keep.get("language");
  if (asked && [...languages.options].some((option) => option.value === asked)) {
    languages.value = asked;
    if (asked !== "en") speak(asked);
  }

  // ---- theme
  const theme = keep.get("theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    keep.set("theme", root.dataset.theme);
  });

  // ---- folds
  const folds = () => all("main details");
  document.getElementById("open-all").addEventListener("click", () => folds().forEach((fold) => { fold.open = true; }));
  document.getElementById("close-all").addEventListener("click", () => folds().forEach((fold) => { fold.open = false; }));
  let folded = [];
  addEventListener("beforeprint", () => { folded = folds().filter((fold) => !fold.open); folded.forEach((fold) => { fold.open = true; }); });
  addEventListener("afterprint", () => folded.forEach((fold) => { fold.open = false; }));
  const reveal = (element) => { for (let at = element; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true; };
  const follow = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) { reveal(target); target.scrollIntoView(); }
  };
  addEventListener("hashchange", follow);
  if (location.hash) follow();

  // ---- contents that follow
  const contents = document.querySelector("nav.contents");
  const links = new Map(all("nav.contents a[href^='#']").map((link) => [link.getAttribute("href").slice(1), link]));
  const headings = all("main h2[id], main h3[id], main h4[id]").filter((heading) => links.has(heading.id));
  let current = null, waiting = false;
  const narrow = matchMedia("(max-width: 60rem)");
  const mark = () => {
    waiting = false;
    const edge = innerHeight * 0.25;
    let found = headings[0];
    for (const heading of headings) {
      if (heading.getBoundingClientRect().top > edge) break;
      found = heading;
    }
    if (!found || found === current) return;
    if (current) links.get(current.id).removeAttribute("aria-current");
    current = found;
    const link = links.get(found.id);
    link.setAttribute("aria-current", "location");
    if (!narrow.matches) {
      const box = link.getBoundingClientRect(), frame = contents.getBoundingClientRect();
      if (box.top < frame.top + 40 || box.bottom > frame.bottom - 40) contents.scrollTop += box.top - frame.top - frame.height / 3;
    }
  };
  addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(mark); } }, { passive: true });
  mark();
  const drawer = contents.querySelector("details");
  const fit = () => { drawer.open = !narrow.matches; };
  narrow.addEventListener("change", fit);
  fit();
  contents.addEventListener("click", (event) => { if (event.target.closest("a") && narrow.matches) drawer.open = false; });

  // ---- search
  const field = document.getElementById("search"), told = document.getElementById("matches");
  let hits = [], at = -1;
  const look = (query) => {
    hits = []; at = -1;
    if (globalThis.CSS && CSS.highlights) CSS.highlights.delete("found");
    if (query.length < 2) { told.textContent = ""; return; }
    const wanted = query.toLowerCase();
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode, parent = node.parentElement;
      if (!parent || parent.closest("script, style, annotation")) continue;
      const text = node.data.toLowerCase();
      for (let from = text.indexOf(wanted); from >= 0; from = text.indexOf(wanted, from + wanted.length)) {
        const range = new Range();
        range.setStart(node, from);
        range.setEnd(node, Math.min(from + wanted.length, node.length));
        hits.push(range);
      }
    }
    if (globalThis.Highlight && CSS.highlights) CSS.highlights.set("found", new Highlight(...hits));
    told.textContent = say("ui.matches", { count: String(hits.length) }, root.dataset.language || "en");
  };
  field.addEventListener("input", () => look(field.value.trim()));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !hits.length) return;
    event.preventDefault();
    at = (at + (event.shiftKey ? -1 : 1) + hits.length) % hits.length;
    const element = hits[at].startContainer.parentElement;
    reveal(element);
    element.scrollIntoView({ block: "center" });
    told.textContent = `${at + 1} / ${hits.length}`;
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); field.focus(); }
  });
})();
