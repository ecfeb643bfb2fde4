// Optional extras on every page: local times, copy buttons, menus, ranges of charts, the palette.
"use strict";

function showLocalTimes(root) {
  for (const moment of root.querySelectorAll("time[datetime]")) {
    const date = new Date(moment.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const local = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    moment.title = `${local} (your time zone)`;
  }
}

function addCopyButtons(root) {
  for (const block of root.querySelectorAll(".copyable")) {
    const button = block.querySelector("button");
    if (!button || !navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent);
      const label = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = label; }, 2000);
    });
  }
}

// Menus that open over the page close like menus.
const MENUS = ".info, .range details, .columns-menu";

function closeMenus(except) {
  for (const menu of document.querySelectorAll(MENUS)) {
    if (menu.open && menu !== except) menu.open = false;
  }
}

document.addEventListener("click", (event) => closeMenus(event.target.closest(MENUS)));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = event.target.closest?.(MENUS);
  closeMenus();
  open?.querySelector("summary").focus();
});

// A range of days: chosen in a form, or on a chart by dragging or with Shift and the arrow keys.
function addRanges(figure) {
  const days = [...figure.querySelectorAll(".days > li")];
  const links = days.map((day) => day.querySelector("a"));
  if (!days.length || links.some((link) => !link)) return;
  let start = null;
  let end = null;
  let isDragging = false;
  const pick = (from, to) => {
    [start, end] = [from, to];
    const [low, high] = from <= to ? [from, to] : [to, from];
    days.forEach((day, at) => day.classList.toggle("picked", start !== null && at >= low && at <= high));
  };
  const go = () => {
    const [low, high] = start <= end ? [start, end] : [end, start];
    const address = new URL(links[low].href);
    address.searchParams.set("from", days[low].dataset.from);
    address.searchParams.set("to", days[high].dataset.to);
    location.assign(address);
  };
  // One stop for the Tab key; arrows move between the days.
  links.forEach((link, at) => {
    link.tabIndex = at === links.length - 1 ? 0 : -1;
    link.draggable = false;
    link.addEventListener("focus", () => links.forEach((one) => { one.tabIndex = one === link ? 0 : -1; }));
  });
  const at = (event) => {
    const box = figure.querySelector(".days").getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    return Math.min(days.length - 1, Math.max(0, Math.floor(share * days.length)));
  };
  const area = figure.querySelector(".days");
  area.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch") return;
    isDragging = true;
    [start, end] = [at(event), at(event)];
  });
  window.addEventListener("pointermove", (event) => {
    if (!isDragging || at(event) === end) return;
    figure.classList.add("dragging");
    pick(start, at(event));
  });
  window.addEventListener("pointerup", () => {
    if (isDragging && start !== end) {
      area.addEventListener("click", (event) => event.preventDefault(), { once: true, capture: true });
      go();
    }
    isDragging = false;
    figure.classList.remove("dragging");
  });
  area.addEventListener("keydown", (event) => {
    const now = links.indexOf(document.activeElement);
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: links.length - 1 }[event.key];
    if (now >= 0 && next !== undefined) {
      event.preventDefault();
      const to = Math.min(links.length - 1, Math.max(0, next));
      if (event.shiftKey) pick(start ?? now, to);
      else pick(null, null);
      links[to].focus();
    } else if (event.key === "Enter" && start !== null && start !== end) {
      event.preventDefault();
      go();
    } else if (event.key === "Escape") {
      pick(null, null);
    }
  });
}

// The palette: what the page /go lists, in a dialog.
let palette = null;

function openPalette() {
  palette ??= buildPalette();
  palette.showModal();
  const input = palette.querySelector("input");
  input.value = "";
  list("");
  input.focus();
}

function buildPalette() {
  const dialog = document.createElement("dialog");
  dialog.className = "palette";
  dialog.setAttribute("aria-label", "Go to");
  dialog.innerHTML =
    '<input type="search" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-label="Go to a page, route, model or finding" placeholder="Go to a page, route, model or finding" autocomplete="off"><ul id="palette-list" role="listbox" aria-label="Results"></ul>';
  document.body.append(dialog);
  const input = dialog.querySelector("input");
  let timer;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => list(input.value), 80);
  });
  input.addEventListener("keydown", (event) => {
    const options = [...dialog.querySelectorAll("[role=option]")];
    const now = options.findIndex((one) => one.ariaSelected === "true");
    if (event.key === "Enter" && options[now]) location.assign(options[now].dataset.href);
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const step = event.key === "ArrowDown" ? 1 : -1;
    select(options, (now + step + options.length) % options.length);
  });
  dialog.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) location.assign(option.dataset.href);
    else if (event.target === dialog) dialog.close();
  });
  return dialog;
}

function select(options, at) {
  options.forEach((one, index) => { one.ariaSelected = String(index === at); });
  options[at]?.scrollIntoView({ block: "nearest" });
  palette.querySelector("input").setAttribute("aria-activedescendant", options[at]?.id ?? "");
}

let asked = 0;

async function list(text) {
  const mine = (asked += 1);
  const response = await fetch(`/go?q=${encodeURIComponent(text)}`);
  if (!response.ok || mine !== asked) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const options = [...page.querySelectorAll("#results a")].map((link, at) => {
    const option = document.createElement("li");
    option.id = `palette-${at}`;
    option.role = "option";
    option.dataset.href = link.getAttribute("href");
    const kind = document.createElement("small");
    kind.textContent = link.dataset.kind;
    option.append(link.textContent, kind);
    return option;
  });
  palette.querySelector("ul").replaceChildren(...options);
  if (options.length) select(options, 0);
}

if (document.body.classList.contains("app")) {
  document.addEventListener("keydown", (event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette();
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-palette]")) return;
    event.preventDefault();
    openPalette();
  });
}

// The browser's time zone, where none is chosen yet.
for (const zones of document.querySelectorAll("[data-time-zone]")) {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zones.value === own || ![...zones.options].some((one) => one.value === own)) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link";
  button.textContent = `Use ${own}, this browser's`;
  button.addEventListener("click", () => { zones.value = own; button.remove(); });
  zones.after(button);
}

// What a page waits for: then it is loaded again.
for (const waiting of document.querySelectorAll("[data-waiting]")) {
  const timer = setInterval(async () => {
    const response = await fetch(waiting.dataset.waiting).catch(() => null);
    if (!response?.ok || !(await response.json()).is_ready) return;
    clearInterval(timer);
    location.assign("/dashboard");
  }, 2000);
}

function enhance(root) {
  showLocalTimes(root);
  addCopyButtons(root);
  for (const figure of root.querySelectorAll("[data-range]")) addRanges(figure);
}

enhance(document);
