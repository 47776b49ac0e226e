// The symptom that an address names is opened.
(function () {
  "use strict";
  function open() {
    const named = document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    if (named && named.tagName === "DETAILS") { named.open = true; named.scrollIntoView(); }
  }
  window.addEventListener("hashchange", open);
  open();
})();

// A button to copy each command and ticket, where the browser lets a page do so.
(function () {
  "use strict";
  if (!navigator.clipboard || !window.isSecureContext) return;
  for (const command of document.querySelectorAll("pre.command, pre.ticket")) {
    const text = command.textContent;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      navigator.clipboard.writeText(text).then(
        () => { button.textContent = "Copied"; },
        () => { button.textContent = "Select it by hand"; },
      );
    });
    command.prepend(button);
  }
})();
