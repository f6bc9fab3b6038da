// Light or dark: the system's, until the button is used.
import {byId} from "./dom.js";

const kStored = "tril-theme";  // in localStorage; also read by theme.js

export function offerThemes() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const now = () => root.dataset.theme ?? (system.matches ? "dark" : "light");
  const name = () => {
    byId("theme").textContent = now() === "dark" ? "Light" : "Dark";
  };
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = now() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(kStored, root.dataset.theme);
    } catch {
      // Not kept where storage is forbidden.
    }
    name();
  });
  system.addEventListener("change", name);
  name();
}
