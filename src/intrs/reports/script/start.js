// Everything is defined: begin.

document.body.dataset.measure = "all";
startCurves();
startTraining();
startTable();
startGallery();
