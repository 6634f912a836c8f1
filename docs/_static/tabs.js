// A link to a name in a tab that is not shown opens that tab.
function openTab() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const content = target && target.closest(".sd-tab-content");
  if (!content) return;
  content.previousElementSibling.click();
  target.scrollIntoView();
}

window.addEventListener("hashchange", openTab);
window.addEventListener("load", openTab);
