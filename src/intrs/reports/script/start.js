// Everything is defined: begin.

startCurves();
startTraining();
startTable();
startGallery();
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
