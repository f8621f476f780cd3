// Fetches the page again, and replaces its live parts: forms and the place that the reader scrolled to stay.
"use strict";
(() => {
  const note = (text) => { for (const one of document.querySelectorAll("[data-status]")) one.textContent = text; };
  const wait = () => {
    const seconds = Number(document.querySelector("[data-every]")?.dataset.every);
    if (seconds) setTimeout(refresh, seconds * 1000);
  };
  const update = (page) => {
    document.title = page.title;
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = page.querySelector(`[data-live="${part.dataset.live}"]`);
      if (!next || next.innerHTML === part.innerHTML) continue;
      const link = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const atEnd = part.scrollTop > 0 && part.scrollTop + part.clientHeight >= part.scrollHeight - 2;
      part.replaceChildren(...next.childNodes);
      if (atEnd) part.scrollTop = part.scrollHeight;
      if (link) part.querySelector(`a[href="${CSS.escape(link)}"]`)?.focus({preventScroll: true});
    }
  };
  const refresh = async () => {
    if (document.hidden) return wait();
    try {
      const response = await fetch(location.href, {headers: {accept: "text/html"}, cache: "no-store"});
      if (!response.ok) throw new Error(response.status);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (!page.querySelector("[data-live]")) return note("This page is not updated any more: log in again.");
      update(page);
      note("");
      wait();
    } catch {
      note("The service does not respond; this page shows what it was.");
      wait();
    }
  };
  wait();
})();
