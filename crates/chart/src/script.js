"use strict";
const tip = document.getElementById("tip");
function show(event) {
  const text = event.target.dataset && event.target.dataset.tip;
  if (!text) { tip.style.display = "none"; return; }
  tip.textContent = text;
  tip.style.display = "block";
  const left = Math.min(event.pageX + 12, document.documentElement.clientWidth - tip.offsetWidth - 6);
  tip.style.left = Math.max(6, left) + "px";
  tip.style.top = event.pageY + 14 + "px";
}
addEventListener("pointermove", show);
addEventListener("pointerdown", show);
for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const off = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!off));
    for (const group of button.closest("section").querySelectorAll(`g[data-series="${button.dataset.series}"]`)) {
      group.classList.toggle("off", off);
    }
  });
}
