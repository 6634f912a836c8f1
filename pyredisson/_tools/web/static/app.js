// Keeps a page up to date by server-sent events. All HTML in them is written, and escaped, by the server.
"use strict";
(() => {
  const live = document.getElementById("live");
  const dot = document.getElementById("dot");
  const stale = document.getElementById("stale");
  const staleSince = document.getElementById("stale-since");
  const filter = document.getElementById("filter");
  let source = null;
  let lastNews = Date.now();
  let lastTry = Date.now();
  let offset = 0; // How far the clock of the program is ahead of ours, in seconds.
  let retry = 0;
  let retryIn = 2000;

  // ---- times ------------------------------------------------------------------------------------------------------

  function duration(seconds) {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
    if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
    return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
  }

  function write(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function tick() {
    const now = Date.now() / 1000 + offset;
    for (const each of document.querySelectorAll("time[data-since]")) write(each, duration(now - each.dataset.since));
    for (const each of document.querySelectorAll("time[data-until]")) write(each, duration(each.dataset.until - now));
    const patience = Number(live.dataset.patience); // milliseconds
    const isStale = Date.now() - lastNews > patience || (source !== null && source.readyState === EventSource.CLOSED);
    if (isStale && stale.hidden) write(staleSince, new Date(lastNews).toLocaleTimeString());
    stale.hidden = !isStale;
    // A connection may be dead without a word, such as after a laptop has slept.
    if (isStale && source !== null && Date.now() - lastTry > patience) connect();
    dot.className = isStale ? "dot stale" : source && source.readyState === EventSource.OPEN ? "dot live" : "dot";
  }

  function localTimes(root) {
    for (const each of root.querySelectorAll("time[data-at]")) {
      const at = new Date(each.dataset.at * 1000);
      each.title = at.toLocaleString();
      write(each, at.toLocaleTimeString());
    }
  }

  // ---- parts ------------------------------------------------------------------------------------------------------

  function elementOf(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  }

  // The HTML of an element as the server wrote it, without what we wrote into it; `still`: without its times, too.
  function written(element, still = false) {
    const copy = element.cloneNode(true);
    for (const each of copy.querySelectorAll("time")) {
      each.textContent = "";
      each.removeAttribute("title");
      if (still) ["data-since", "data-until"].forEach((name) => each.removeAttribute(name));
    }
    for (const each of copy.querySelectorAll("details")) each.removeAttribute("open");
    copy.classList.remove("changed");
    return copy.innerHTML;
  }

  function replaceBlock(id, html) {
    const block = document.getElementById(id);
    if (!block) return;
    const fresh = document.createElement("div");
    fresh.innerHTML = html;
    if (written(fresh) === written(block)) return; // What is in use, such as a link under a finger, stays.
    const open = [...block.querySelectorAll("[data-key]")].filter((each) => each.querySelector("details[open]"));
    const keys = open.map((each) => each.dataset.key);
    const focused = block.contains(document.activeElement) ? document.activeElement : null;
    const path = focused ? [focused.tagName, focused.closest("[data-key]")?.dataset.key] : null;
    block.innerHTML = html;
    for (const each of block.querySelectorAll("[data-key]")) {
      if (keys.includes(each.dataset.key)) each.querySelector("details")?.setAttribute("open", "");
      if (path && each.dataset.key === path[1]) each.querySelector(path[0])?.focus();
    }
    localTimes(block);
  }

  function mark(element) {
    element.classList.remove("changed");
    void element.offsetWidth; // So that the animation starts again.
    element.classList.add("changed");
  }

  function updateRow(row, fresh, first) {
    row.className = fresh.className;
    [...fresh.children].forEach((cell, index) => {
      const had = row.children[index];
      if (written(had, true) === written(cell, true)) {
        const times = had.querySelectorAll("time");
        cell.querySelectorAll("time").forEach((time, which) => Object.assign(times[which].dataset, time.dataset));
        return;
      }
      had.replaceWith(cell);
      if (!first) mark(cell);
    });
  }

  function replaceRows(id, list, first) {
    const body = document.getElementById(id);
    if (!body) return;
    const had = new Map([...body.children].map((row) => [row.dataset.key, row]));
    const focused = document.activeElement;
    const focusedKey = body.contains(focused) ? focused.closest("[data-key]").dataset.key : null;
    let before = body.firstElementChild;
    for (const key of list.order) {
      let row = had.get(key);
      if (key in list.rows) {
        const fresh = elementOf(list.rows[key]);
        if (row) updateRow(row, fresh, first);
        else row = fresh;
        if (!first && !had.has(key)) mark(row);
      }
      had.delete(key);
      if (!row) continue;
      if (row === before) before = before.nextElementSibling;
      else body.insertBefore(row, before);
      if (key === focusedKey && document.activeElement !== focused) (focused.isConnected ? focused : row.querySelector("a"))?.focus();
    }
    for (const row of had.values()) row.remove();
  }

  // ---- events -----------------------------------------------------------------------------------------------------

  function connect() {
    disconnect();
    const opened = new EventSource(live.dataset.events + location.search);
    let first = true;
    source = opened;
    lastTry = Date.now();
    opened.onmessage = (message) => {
      const update = JSON.parse(message.data);
      lastNews = Date.now();
      retryIn = 2000;
      offset = update.now - Date.now() / 1000;
      for (const [id, html] of Object.entries(update.blocks)) replaceBlock(id, html);
      for (const [id, list] of Object.entries(update.lists)) replaceRows(id, list, first);
      first = false;
      tick();
    };
    opened.onerror = () => {
      first = true; // The next event of this source is complete.
      if (opened.readyState !== EventSource.CLOSED || opened !== source) return; // The browser tries again.
      retry = setTimeout(connect, retryIn);
      retryIn = Math.min(2 * retryIn, 30000);
    };
  }

  function disconnect() {
    clearTimeout(retry);
    if (source) source.close();
    source = null;
  }

  // A page that is not visible costs the server nothing.
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
  addEventListener("pagehide", disconnect);

  if (filter) {
    let pause = 0;
    const apply = () => {
      const wanted = new URLSearchParams();
      for (const [name, value] of new FormData(filter)) if (value) wanted.set(name, value);
      history.replaceState(null, "", `/?${wanted}`);
      connect();
    };
    filter.addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(apply, 250); });
    filter.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(pause); apply(); });
  }

  document.documentElement.classList.add("live");
  localTimes(document);
  setInterval(tick, 1000);
  tick();
  if (!document.hidden) connect();
})();
