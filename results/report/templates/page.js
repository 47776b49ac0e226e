// A button to copy each command, where the browser lets a page do so.
(function () {
  "use strict";
  if (!navigator.clipboard || !window.isSecureContext) return;
  for (const command of document.querySelectorAll("pre.command")) {
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
